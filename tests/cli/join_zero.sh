# DeepSpeed's checkpoints: which copy of the weights is taken, what is put together, what is refused
exec 2>&1
run() { echo "\$ $*"; "$@" || echo "status $?"; }
fresh() { rm -rf c && cp -r "$TESTDATA/extra/zero/$1/ckpt" c && chmod -R u+w c; }
same() { pgdiff "$1" "$TESTDATA/extra/zero/$2.safetensors" || echo "status $?"; }

fresh small
run pgjoin c model.safetensors && same model.safetensors small/model
run pgjoin --force --master c model.safetensors && same model.safetensors small/model
run pgjoin --as-trained c module.safetensors && same module.safetensors small/module
run pgconvert --force --as-trained c module.safetensors && same module.safetensors small/module
run pgjoin --part optimizer c optimizer.safetensors && same optimizer.safetensors small/optimizer
run pgjoin c/global_step2_universal universal.safetensors && same universal.safetensors small/model
run pgjoin --as-trained --part model c no.safetensors
run pgjoin --as-trained --master c no.safetensors
run pgjoin --master --part module c no.safetensors
run pgjoin --part nothing c no.safetensors
run pgjoin --as-trained "$TESTDATA/modern/dcp-fsdp2/ckpt" no.safetensors

# nothing but the storage says that names are tied
cp "$TESTDATA"/extra/zero/small/untied/*.pt c/global_step2
run pgjoin c untied.safetensors && same untied.safetensors small/model

fresh small && cp "$TESTDATA"/extra/zero/small/later/*.pt c/global_step2
run pgjoin c no.safetensors
cp "$TESTDATA"/extra/zero/sub/ckpt/global_step2/*_rank_1_*optim_states.pt c/global_step2
run pgjoin c no.safetensors
fresh small && cp "$TESTDATA"/extra/zero/sub/ckpt/global_step2/*_rank_2_*optim_states.pt c/global_step2
run pgjoin c no.safetensors

fresh small && rm c/global_step2/mp_rank_00_model_states.pt
run pgjoin c no.safetensors

for i in experts slices pipe-tied sub; do
  fresh $i
  run pgjoin c $i.safetensors && same $i.safetensors $i/model
done
rm experts.safetensors && fresh experts && rm c/global_step2/layer_0_expert_3_mp_rank_00_model_states.pt
run pgjoin c experts.safetensors

# without the files of the last rank the others fit together, too
for i in slices pipe-tied; do
  fresh $i && rm c/global_step2/*mp_rank_01_*
  run pgjoin c no.safetensors
  run pgjoin --as-trained c no.safetensors
done

# a layer of a pipeline: its master weights are elsewhere, its buffers are not
fresh pipe-tied && rm c/global_step2/layer_03-model_states.pt
run pgjoin --as-trained c no.safetensors
run pgjoin c no.safetensors

# an optimizer that keeps more than any does: what one parameter has, a few bytes repeat
fresh small
python3 - c/global_step2/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt <<'E'
import pickletools, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as z:
    members = {i.filename: z.read(i) for i in z.infolist()}
name, = (n for n in members if n.endswith('/data.pkl'))
ops = list(pickletools.genops(members[name]))
k = next(k for k, (op, arg, at) in enumerate(ops) if arg == 'exp_avg_sq')
op, memo, at = ops[k - 1]
assert op.name == 'BINPUT'
more = b''.join(b'X\3\0\0\0k%02dh%c' % (i, memo) for i in range(20))
members[name] = members[name][:ops[k][2]] + more + members[name][ops[k][2]:]
with zipfile.ZipFile(sys.argv[1], 'w') as z:
    for n in members:
        z.writestr(n, members[n])
E
run pgjoin --part optimizer c no.safetensors

# model_states of another step: of one rank in stage 3; beside the optimizer in stage 2, where the weights tell that it was
# not resumed without its optimizer
cat >saved_at.py <<'E'
import re, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as z:
    members = {i.filename: z.read(i) for i in z.infolist()}
with zipfile.ZipFile(sys.argv[1], 'w') as z:
    for n, b in members.items():
        if n.endswith('/data.pkl'):
            b, times = re.subn(rb'(global_steps(?:q.|r....)?)K.', lambda m: m[1] + b'K\7', b, flags=re.S)
            assert times == 1
        elif '/data/' in n and sys.argv[2:]:
            b = b[:3] + bytes([b[3] ^ 1]) + b[4:]
        z.writestr(n, b)
E
fresh sub && python3 saved_at.py c/global_step2/zero_pp_rank_1_mp_rank_00_model_states.pt
run pgjoin c no.safetensors
fresh small && python3 saved_at.py c/global_step2/mp_rank_00_model_states.pt
run pgjoin --force c model.safetensors && same model.safetensors small/model
python3 saved_at.py c/global_step2/mp_rank_00_model_states.pt weights
run pgjoin c no.safetensors
run pgjoin --as-trained c no.safetensors
rm saved_at.py

# more files than may be open at a time
fresh small
for i in $(seq 200); do cp -r c/global_step2_universal/zero/g "c/global_step2_universal/zero/x$i"; done
(ulimit -n 160 && run pgjoin c/global_step2_universal many.safetensors)
rm -r c
ls
