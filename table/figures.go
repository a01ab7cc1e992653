// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package table

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"time"
)

// figures are the signs with which a file writes numbers: 1234.5, 1,234.5 or 1.234,5.
type figures struct {
	decimal   byte // ',', or 0 for '.'
	thousands byte // between groups of three digits: '.', ',', '\'' or ' '; 0 means none
}

// figures returns the signs that File declares.
func (f File) figures() figures {
	var out figures
	if f.Decimal == "," {
		out.decimal = ','
	}
	if f.Thousands != "" {
		out.thousands = f.Thousands[0]
	}
	return out
}

func (f File) checkFigures() error {
	switch {
	case f.Decimal != "" && f.Decimal != "." && f.Decimal != ",":
		return bad("file.decimal", "%s, want \".\" or \",\", or leave it out for \".\"", quote(f.Decimal))
	case f.Thousands != "" && (len(f.Thousands) > 1 || !strings.Contains(".,' ", f.Thousands)):
		return bad("file.thousands", "%s, want \".\", \",\", \"'\" or \" \", or leave it out for none", quote(f.Thousands))
	case f.Thousands == "." && f.Decimal != "," || f.Thousands == "," && f.Decimal == ",":
		return bad("file.thousands", "%s is the decimal sign, too: want different signs, such as \"decimal\": \",\" and "+
			"\"thousands\": \".\"", quote(f.Thousands))
	}
	return nil
}

// number parses a field without blanks around it, as the function number does for plain figures. A
// sign between thousands has three digits behind it and at most three before it, so that 1.5 is
// never read as 15.
func (f figures) number(field []byte) (v float64, ok bool) {
	if f == (figures{}) {
		return number(field)
	}
	if f.thousands == ' ' { // also the blanks that do not break lines
		field = bytes.ReplaceAll(bytes.ReplaceAll(field, []byte("\u00a0"), []byte{' '}), []byte("\u202f"), []byte{' '})
	}
	decimal := f.decimal
	if decimal == 0 {
		decimal = '.'
	}
	whole := field
	if k := bytes.IndexAny(field, "eE"+string(rune(decimal))); k >= 0 {
		whole = field[:k]
	}
	rest := field[len(whole):]
	plain := make([]byte, 0, 32)
	if f.thousands != 0 && bytes.IndexByte(whole, f.thousands) >= 0 {
		for k, group := range bytes.Split(whole, []byte{f.thousands}) {
			digits, least := group, 3
			if k == 0 {
				least = 1
			}
			if k == 0 && len(group) > 0 && (group[0] == '-' || group[0] == '+') {
				digits = group[1:]
			}
			if len(digits) < least || len(digits) > 3 || k == 0 && digits[0] == '0' ||
				len(bytes.Trim(digits, "0123456789")) > 0 {
				return 0, false
			}
			plain = append(plain, group...)
		}
	} else {
		plain = append(plain, whole...)
	}
	if decimal != '.' {
		if bytes.IndexByte(plain, '.') >= 0 || bytes.IndexByte(rest, '.') >= 0 {
			return 0, false
		}
		rest = bytes.Replace(rest, []byte{decimal}, []byte{'.'}, 1)
	}
	return number(append(plain, rest...))
}

// number parses a field without blanks around it. Out of range means ±Inf or 0. Hexadecimal floats
// and digit separators, which strconv knows, are no numbers in a table.
func number(field []byte) (v float64, ok bool) {
	if len(field) == 0 || bytes.ContainsAny(field, "xX_") {
		return 0, false
	}
	v, err := strconv.ParseFloat(string(field), 64)
	return v, err == nil || errors.Is(err, strconv.ErrRange)
}

// epoch is day 0 of dates, 2000-01-01, in seconds since 1970.
const epoch = 946684800

// longestDate is the length of a field in bytes from which on it is no date.
const longestDate = 64

// date returns the days from 2000-01-01 to a date and time in the form of layout, as [time.Parse]
// reads it; without a time zone it is in UTC.
func date(field []byte, layout string) (days float64, ok bool) {
	if len(field) == 0 || len(field) > longestDate {
		return 0, false
	}
	t, err := time.Parse(layout, string(field))
	if err != nil {
		return 0, false
	}
	return (float64(t.Unix()-epoch) + float64(t.Nanosecond())/1e9) / 86400, true
}

// checkDate checks a layout: it has to keep the year, the month and the day of a date.
func checkDate(path, layout string) error {
	if layout == "" {
		return nil
	}
	const want = "want the date 2 January 2006 as the file writes it, such as \"2006-01-02\", \"02.01.2006\" or " +
		"\"1/2/2006\", or with the time 15:04:05"
	if err := plain(path, layout, "field"); err != nil {
		return err
	}
	if len(layout) >= longestDate {
		return bad(path, "longer than %d bytes, %s", longestDate, want)
	}
	if strings.Contains(layout, "MST") { // time.Parse looks it up in the time zone of the machine
		return bad(path, "%s has a zone by name, which differs between machines: want an offset such as -07:00",
			quote(layout))
	}
	for _, t := range []time.Time{
		time.Date(2013, 11, 24, 0, 0, 0, 0, time.UTC), time.Date(1996, 2, 29, 0, 0, 0, 0, time.UTC),
	} {
		v, ok := date([]byte(t.Format(layout)), layout)
		if !ok || v != float64(t.Unix()-epoch)/86400 {
			return bad(path, "%s is no layout of a date, %s", quote(layout), want)
		}
	}
	return nil
}
