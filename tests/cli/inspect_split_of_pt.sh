# a split of a PyTorch file with a short name, from which the one-device model is two commands away
cp $TESTDATA/extra/checkpoints/moco.pth.tar a.pt
pgsplit -q --format npy a.pt d
pginfo d | tail -1
