package installer

import "time"

// When something fights us: after fightLimit repairs of one object within a
// minute, it is left alone for a while that doubles up to quietMax. A quiet
// minute ends the fight.
const (
	fightLimit  = 20
	fightWindow = time.Minute
	quietFirst  = time.Minute
	quietMax    = 15 * time.Minute
)

// quiet counts repairs by object and path.
type quiet map[string]*fight

type fight struct {
	repairs []time.Time // within the window, at most fightLimit+1
	pause   time.Duration
	until   time.Time
}

func quietKey(s Step) string { return string(s.Object) + "\x00" + s.Path }

// held says that the object is to be left alone now.
func (q quiet) held(s Step, now time.Time) bool {
	f := q[quietKey(s)]
	return f != nil && now.Before(f.until)
}

// note counts a repair. until is set if the object is left alone from now on.
func (q quiet) note(s Step, now time.Time) (count int, until time.Time) {
	f := q[quietKey(s)]
	if f == nil {
		f = &fight{}
		q[quietKey(s)] = f
	}
	if f.pause > 0 && now.Sub(f.until) > f.pause {
		f.pause = 0 // peace for as long as the last pause
	}
	i := 0
	for i < len(f.repairs) && now.Sub(f.repairs[i]) > fightWindow {
		i++
	}
	f.repairs = append(f.repairs[i:], now)
	count = len(f.repairs)
	if count <= fightLimit && f.pause == 0 {
		return count, time.Time{}
	}
	f.pause = min(max(2*f.pause, quietFirst), quietMax)
	f.until = now.Add(f.pause)
	f.repairs = nil
	return count, f.until
}

// next is how long until the first held object may be tried again.
func (q quiet) next(now time.Time) time.Duration {
	next := quietMax
	for _, f := range q {
		if d := f.until.Sub(now); d > 0 && d < next {
			next = d
		}
	}
	return next + time.Millisecond
}
