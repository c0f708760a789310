# A loss that becomes NaN is noted, or with --terminate-on-nan ends the run; so does a signal, after the step in hand.
pgfit --demo digits --epochs 2 --optimizer sgd:learning_rate=1e20 2>&1 | grep -o -e '^note: loss is NaN since epoch 1, batch' -e 'loss=nan' | sort -u
pgfit -q --demo digits --optimizer sgd:learning_rate=1e20 --terminate-on-nan -o nan.h5 2>nan.txt || echo "exit $?"
sed 's/batch [0-9]*/batch N/; s/[a-z0-9]*$/LAYER/' nan.txt
ls nan.h5 2>/dev/null || echo nothing was saved
pgfit -q --demo digits --epochs 250 -o long.h5 2>long.txt & run=$!
sleep 1
kill -TERM $run
wait $run || echo "exit $?"
sed 's/[0-9][0-9]*/N/g; s/validation //' long.txt
ls long.h5 2>/dev/null || echo nothing was saved
