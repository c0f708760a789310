# ranks of Megatron-LM: put together, or refused in one line with nothing written
exec 2>&1
run() { echo "\$ $*"; "$@" || echo "status $?"; }
cp -r "$TESTDATA"/modern/megatron-* "$TESTDATA"/extra/megatron/bad-* . && chmod -R u+w .

for c in megatron-gelu-tp2-pp2 megatron-llama-tp2-pp2-vp2 megatron-moe-pp2-ep2 megatron-old-1 megatron-old-2; do
  run pgjoin $c/ckpt $c.safetensors
  pgdiff $c.safetensors $c/expected.safetensors
done
run pgjoin megatron-old-0/ckpt old.safetensors
run pgjoin --rules megatron-lm-1,heads=4 megatron-old-2/ckpt old.safetensors
run pgjoin --rules megatron-lm-9 megatron-old-0/ckpt old.safetensors
run pgjoin --rules megatron-lm-0,heads=3 megatron-old-0/ckpt old.safetensors
run pgjoin --rules megatron-lm-0,heads=4 megatron-old-0/ckpt old.safetensors
run pgdiff --rules megatron-lm-0,heads=4 megatron-old-0/ckpt old.safetensors
run pginfo megatron-llama-tp2-pp2-vp2/ckpt/iter_0000020/mp_rank_01_001 | head -4
run pgjoin --rules vocab=37 megatron-gelu-tp2-pp2/ckpt words.safetensors
pginfo words.safetensors | grep 'word_emb\|output'
pgdiff words.safetensors megatron-gelu-tp2-pp2/expected.safetensors | head -3
run pgjoin --rules vocab=20 megatron-llama-tp2-pp2-vp2/ckpt few.safetensors
run pgjoin --rules vocab=41 megatron-gelu-tp2-pp2/ckpt out.safetensors
run pgjoin --part optimizer megatron-gelu-tp2-pp2/ckpt optimizer.safetensors

# which iteration, which ranks
cp -r megatron-old-1/ckpt c && cp -r c/iter_0000007 c/iter_0000009
run pgcheck c
echo 9 >c/latest_checkpointed_iteration.txt && rm c/iter_0000009/mp_rank_00/model_optim_rng.pt
run pgjoin c out.safetensors
echo 11 >c/latest_checkpointed_iteration.txt
run pgjoin c out.safetensors
echo never >c/latest_checkpointed_iteration.txt
run pgjoin c out.safetensors
rm -r c
c=megatron-gelu-tp2-pp2/ckpt/iter_0000020
truncate -s 9000 $c/mp_rank_01_001/model_optim_rng.pt && rm $c/mp_rank_01_000/model_optim_rng.pt
run pgjoin megatron-gelu-tp2-pp2/ckpt out.safetensors
rm -r megatron-old-0/ckpt/iter_0000007/mp_rank_01
run pgjoin --rules megatron-lm-0,heads=4 megatron-old-0/ckpt out.safetensors

# arguments that do not say how many ranks there are
rewrite() { # ENTRY FROM TO FILE...
  python3 - "$@" <<'END'
import re, sys, zipfile
entry, old, new = sys.argv[1:4]
for path in sys.argv[4:]:
    with zipfile.ZipFile(path) as z:
        entries = {name: z.read(name) for name in z.namelist()}
    with zipfile.ZipFile(path, "w") as z:
        for name, data in entries.items():
            z.writestr(name, re.sub(old.encode(), new.encode(), data) if name.endswith(entry) else data)
END
}
cp -r "$TESTDATA"/modern/megatron-gelu-tp2-pp2/ckpt/iter_0000020 c && chmod -R u+w c
rewrite data.pkl '(model_parallel|num|hidden|vocab|channel|ffn)_' '\1-' c/*/*.pt
run pgjoin c most.safetensors
mv c/mp_rank_00_001 c/mp_rank_01_001 .
run pgjoin c out.safetensors
mv mp_rank_00_001 c && rm -r c/mp_rank_01_000
run pgjoin c out.safetensors
rm -r c mp_rank_01_001

# NumPy's arrays of the other byte order; names that the second rank has in another order
arrays() { # ORDER COUNT FOLDER FOLDER
  python3 - "$@" <<'END'
import struct, sys, zipfile
order, count = sys.argv[1].encode(), int(sys.argv[2])
def text(s):
    return b"X" + struct.pack("<I", len(s)) + s
array = (b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\0\x85C\1btR(K\1K\2\x85cnumpy\ndtype\n(" + text(b"f4") +
         b"K\0K\1tR(K\3" + text(order) + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb\x89C\x08" + bytes(8) + b"tb")
for folder, numbers in zip(sys.argv[3:], (range(count), reversed(range(count)))):
    model = b"".join(text(b"encoder.input_layernorm.weight%d" % i) + array for i in numbers)
    with zipfile.ZipFile(folder + "/model_optim_rng.pt", "w") as z:
        z.writestr("archive/data.pkl", b"\x80\3}" + text(b"model") + b"}(" + model + b"us.")
        z.writestr("archive/version", b"3\n")
END
}
mkdir -p c/mp_rank_00 c/mp_rank_01
arrays '>' 1 c/*
run pgjoin --rules '*=same' c out.safetensors
arrays '<' 60000 c/*
(ulimit -t "$CPU_SECONDS"; run pgjoin --rules '*=same' --dry-run c out.safetensors)
rm -r c

# more ranks than a process may have files open
for rank in $(seq -f %02g 0 199); do
  mkdir -p c/mp_rank_$rank && cp bad-stages-end/mp_rank_00_000/*.pt c/mp_rank_$rank
done
(ulimit -n 160; run pgjoin c many.safetensors)
rm -r c

# torch_dist: layers and experts one by one, if the files say who stacked them
for c in megatron-dist megatron-single; do
  run pgjoin $c/ckpt/latest_checkpointed_iteration.txt $c.safetensors
  run pgdiff $c.safetensors $c/expected.safetensors
done
run pginfo megatron-dist/ckpt | head -5
run pgdiff --rules as-saved megatron-dist/ckpt megatron-dist/expected.safetensors | tail -4
run pginfo --rules as-saved,layers megatron-dist/ckpt
rm megatron-dist/ckpt/iter_0000020/common.pt
run pgjoin --dry-run megatron-dist/ckpt out.safetensors
run pgjoin --rules experts=sequential,spec=local megatron-dist/ckpt again.safetensors
run pgdiff again.safetensors megatron-dist/expected.safetensors
rm megatron-dist/ckpt/iter_0000020/metadata.json
run pgjoin --dry-run megatron-dist/ckpt out.safetensors
run pginfo --rules unstack,experts=grouped megatron-dist/ckpt | grep 'experts\|other'

# in numbers
numbers() { run pginfo --json "$1" | grep -o '"rank_counts": {[^}]*}\|"optimizer_tensors": [0-9]*\|"other_contents": "[^"]*"'; }
for c in megatron-llama-tp2-pp2-vp2 megatron-dist zero3 dcp-fsdp2 rank-pt-dtensor; do
  numbers "$TESTDATA/modern/$c/ckpt"
done
numbers "$TESTDATA/modern/zero3/ckpt/latest"
numbers "$TESTDATA/modern/tf1-saver-sharded/m"

for f in bad-*; do
  run pgjoin $f $f.safetensors
done
run pgjoin --rules adapter.weight=1 bad-unknown out.safetensors
run pginfo out.safetensors
run pgjoin --rules '*position*=first' bad-copies out.safetensors --force
rm -rf bad-*/ megatron-*/
ls
run pgjoin --rules heads=4 "$TESTDATA/modern/dcp-fsdp2/ckpt" other.safetensors
run pginfo --rules heads=4 old.safetensors
run pgdiff --rules heads=4 "$TESTDATA/modern/dcp-fsdp2/ckpt" "$TESTDATA/modern/dcp-fsdp2/expected.safetensors"
run pgdiff --rules megatron-lm-0,heads=4 --part model "$TESTDATA/modern/megatron-old-0/expected.safetensors" "$TESTDATA/modern/megatron-old-0/ckpt"

# rules that say nothing, or something else than the files do
run pgjoin --rules 'nothing.*=first' "$TESTDATA/modern/megatron-gelu-tp2-pp2/ckpt" no.safetensors
run pgjoin --rules heads=3 "$TESTDATA/modern/megatron-gelu-tp2-pp2/ckpt" no.safetensors
