// Package intunewin wraps a setup file as an Intune Win32 app package and
// reads one again. The encryption in it hides nothing (the keys lie beside the
// content, as the format wants it), so they are derived from the content, and
// equal input gives equal bytes.
package intunewin

import (
	"archive/zip"
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"time"
)

const (
	contentPath   = "IntuneWinPackage/Contents/IntunePackage.intunewin"
	detectionPath = "IntuneWinPackage/Metadata/Detection.xml"
)

// detection is Detection.xml; byte fields are base64.
type detection struct {
	XMLName     xml.Name   `xml:"ApplicationInfo"`
	ToolVersion string     `xml:"ToolVersion,attr"`
	Name        string     `xml:"Name"`
	Size        int        `xml:"UnencryptedContentSize"`
	FileName    string     `xml:"FileName"`
	SetupFile   string     `xml:"SetupFile"`
	Encryption  encryption `xml:"EncryptionInfo"`
}

type encryption struct {
	Key       string `xml:"EncryptionKey"`
	MacKey    string `xml:"MacKey"`
	IV        string `xml:"InitializationVector"`
	Mac       string `xml:"Mac"`
	Profile   string `xml:"ProfileIdentifier"`
	Digest    string `xml:"FileDigest"` // SHA-256 before encryption
	Algorithm string `xml:"FileDigestAlgorithm"`
}

// Write returns the package of one setup file.
func Write(setup string, data []byte, at time.Time) ([]byte, error) {
	inner, err := zipped(at, file{setup, data})
	if err != nil {
		return nil, err
	}
	key, macKey, iv := derive("key", inner), derive("mac", inner), derive("iv", inner)[:aes.BlockSize]
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	pad := aes.BlockSize - len(inner)%aes.BlockSize
	body := append(bytes.Clone(inner), bytes.Repeat([]byte{byte(pad)}, pad)...)
	cipher.NewCBCEncrypter(block, iv).CryptBlocks(body, body)
	body = append(bytes.Clone(iv), body...)
	mac := sign(macKey, body)
	digest := sha256.Sum256(inner)
	text := base64.StdEncoding.EncodeToString
	info, err := xml.MarshalIndent(detection{ToolVersion: "1.8.6.0", Name: setup, Size: len(inner), FileName: "IntunePackage.intunewin", SetupFile: setup,
		Encryption: encryption{text(key), text(macKey), text(iv), text(mac), "ProfileVersion1", text(digest[:]), "SHA256"}}, "", "  ")
	if err != nil {
		return nil, err
	}
	return zipped(at, file{contentPath, append(mac, body...)}, file{detectionPath, append([]byte(xml.Header), info...)})
}

// Read opens a package, checks MAC and digest, and returns the setup file.
func Read(pack []byte) (setup string, data []byte, err error) {
	outer, err := zip.NewReader(bytes.NewReader(pack), int64(len(pack)))
	if err != nil {
		return "", nil, err
	}
	raw, err := content(outer, detectionPath)
	if err != nil {
		return "", nil, err
	}
	var d detection
	if err := xml.Unmarshal(raw, &d); err != nil {
		return "", nil, err
	}
	sealed, err := content(outer, contentPath)
	if err != nil {
		return "", nil, err
	}
	if len(sealed) < sha256.Size+2*aes.BlockSize || len(sealed)%aes.BlockSize != 0 {
		return "", nil, errors.New("the content is cut off")
	}
	var fields [5][]byte
	for i, s := range []string{d.Encryption.Key, d.Encryption.MacKey, d.Encryption.IV, d.Encryption.Mac, d.Encryption.Digest} {
		if fields[i], err = base64.StdEncoding.DecodeString(s); err != nil {
			return "", nil, err
		}
	}
	mac, body := sealed[:sha256.Size], sealed[sha256.Size:]
	if !hmac.Equal(mac, sign(fields[1], body)) || !hmac.Equal(mac, fields[3]) || !bytes.Equal(body[:aes.BlockSize], fields[2]) {
		return "", nil, errors.New("the content was changed: its MAC doesn't match")
	}
	block, err := aes.NewCipher(fields[0])
	if err != nil {
		return "", nil, err
	}
	inner := bytes.Clone(body[aes.BlockSize:])
	cipher.NewCBCDecrypter(block, fields[2]).CryptBlocks(inner, inner)
	pad := int(inner[len(inner)-1])
	if pad == 0 || pad > aes.BlockSize || len(inner)-pad != d.Size {
		return "", nil, errors.New("the content's padding or size is wrong")
	}
	inner = inner[:d.Size]
	if digest := sha256.Sum256(inner); !bytes.Equal(digest[:], fields[4]) {
		return "", nil, errors.New("the content's digest doesn't match")
	}
	z, err := zip.NewReader(bytes.NewReader(inner), int64(len(inner)))
	if err != nil {
		return "", nil, err
	}
	data, err = content(z, d.SetupFile)
	return d.SetupFile, data, err
}

func derive(use string, data []byte) []byte { return sign([]byte("intunewin "+use), data) }

func sign(key, data []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(data)
	return h.Sum(nil)
}

type file struct {
	name string
	data []byte
}

func zipped(at time.Time, files ...file) ([]byte, error) {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, f := range files {
		w, err := z.CreateHeader(&zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: at.UTC()})
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := z.Close()
	return out.Bytes(), err
}

func content(z *zip.Reader, name string) ([]byte, error) {
	f, err := z.Open(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	defer f.Close()
	return io.ReadAll(f)
}
