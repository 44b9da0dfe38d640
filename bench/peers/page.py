"""bench/peers/page.py - the tables of the scripts here, between their marks in a page of docs/

A page has `<!-- table: NAME -->` and `<!-- end of table -->`; the lines between them are replaced."""
import os, platform, time


def put(page, name, lines):
    first, last = '<!-- table: %s -->\n' % name, '<!-- end of table -->\n'
    with open(page) as f: text = f.read()
    start = text.find(first)
    end = text.find(last, start)
    if start < 0 or end < 0:
        raise SystemExit('%s: no place for the table (%s ... %s)' % (page, first.strip(), last.strip()))
    with open(page + '.part', 'w') as f:
        f.write(text[:start] + first + ''.join(line + '\n' for line in lines) + text[end:])
    os.replace(page + '.part', page)
    print('%s: the table of %s' % (page, name))


def times(theirs, ours, form='%.1f'):
    """how many times as long; a clock that shows nothing gives no figure"""
    return form % (theirs / ours) if ours > 0 else 'too short to tell'


def where():
    name = next((line.split(':')[1].strip() for line in open('/proc/cpuinfo') if line.startswith('model name')),
                platform.machine()) if os.path.exists('/proc/cpuinfo') else platform.machine()
    return '%s, %s' % (name, time.strftime('%Y-%m-%d', time.gmtime()))
