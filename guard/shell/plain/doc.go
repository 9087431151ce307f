// Package plain parses the statements that shell scripts mostly consist of:
// simple commands, pipelines and lists, if, for and while, subshells and
// blocks, quotes, $name and $(command), assignments and redirections. It gives
// the very tree that mvdan.cc/sh gives for bash, several times as fast and in
// memory that is used again, and stops before the first statement that holds
// anything else: functions, case, [[ ]], arrays, here-documents, backquotes,
// arithmetic, ${name:-word}, or what is no proper shell text at all.
//
// It judges nothing, and it decides nothing by itself: whatever it takes,
// mvdan.cc/sh would have taken in the same way. FuzzTree holds it to that.
package plain
