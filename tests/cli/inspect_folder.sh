# a folder stands for all below it; the last line counts what was left out; a terminal gets what fits
exec 2>&1
run() { echo "\$ $*"; "$@" || echo "status $?"; }
deep=runs/a/long/path/that/nobody/wants/to/see/whole/in/a/terminal/of/eighty/columns
mkdir -p "$deep" runs/.cache empty/below
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/template_weights.h5" "$deep/epoch-0001-loss-0.1234.h5"
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/wrapper_weights.h5" runs/last.h5
cp "$TESTDATA/files/pytorch/cnn/single.pt" runs/pytorch_model.bin
cp -r "$TESTDATA/extra/modern/dcp" runs/step-9
echo log >runs/train.log
ln -s .. runs/a/up
run pginfo runs
mkdir -p others/runs && cp runs/pytorch_model.bin others/M.PTH && cp runs/last.h5 others/runs/LAST.H5
cp "$TESTDATA/extra/checkpoints/numpy_old.pkl" "$TESTDATA/extra/checkpoints/training_args.bin" others
echo no pickle >others/text.pkl
cp "$TESTDATA/extra/checkpoints/optimizer.pt" others/optimizer.bin
cp "$TESTDATA/extra/pytorch/refused_module.pt" others/module.bin
python3 -c "import zipfile; zipfile.ZipFile('others/zip.bin', 'w').writestr('a', 'b')"
head -c 900 runs/pytorch_model.bin >others/cut.bin
run pginfo others
run pginfo -r --markdown runs/a
run pginfo runs/step-9
run pginfo empty
run pginfo --json runs | grep -o '"file": "[^"]*"\|"verdict": "[^"]*"'
cat >terminal.py <<'P'
import fcntl, os, pty, struct, subprocess, sys, termios
master, slave = pty.openpty()
fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack('HHHH', 24, int(sys.argv[1]), 0, 0))
p = subprocess.Popen(sys.argv[2:], stdout=slave, stderr=subprocess.DEVNULL, env={**os.environ, 'TERM': 'xterm', 'NO_COLOR': '1'})
os.close(slave)
while True:
    try:
        got = os.read(master, 4096)
    except OSError:
        break
    os.write(1, got.replace(b'\r\n', b'\n'))
p.wait()
P
for n in 80 120; do echo "$n columns:" && python3 terminal.py $n pginfo runs/; done
