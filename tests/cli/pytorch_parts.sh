# What training programs save: the model is found, named parts are taken, and nothing is guessed.
cp "$TESTDATA"/extra/checkpoints/* .
pginfo imagenet.pth.tar | head -4
pgunwrap imagenet.pth.tar out.safetensors
pgdiff out.safetensors plain.safetensors
for f in tutorial.pt lightning.ckpt detectron2.pth detectron2_zoo.pkl numpy_in_torch.pth numpy_old.pkl mmcv.pth mmengine.pth fairseq.pt torchvision.pth \
    moco.pth.tar mae.pth nanogpt.pt whisper.pt rng_beside.pt pytorch_model.bin accelerate_pytorch_model.bin; do
    pgconvert -f $f out.safetensors
done
echo
for f in timm.pth.tar stylegan2.pt torchvision_ema.pth dino.pth; do
    pginfo $f
    pgconvert $f asked.safetensors || echo "exit $?"
done
pginfo nested.pt
pgconvert nested.pt asked.safetensors || echo "exit $?"
pgconvert --part . nested.pt whole.safetensors
pgdiff whole.safetensors nested.safetensors
pginfo timm.pth.tar dino.pth
pginfo --json timm.pth.tar
echo
pgconvert --part state_dict_ema timm.pth.tar ema_of_timm.safetensors
pgdiff ema_of_timm.safetensors ema.safetensors
pgdiff --part state_dict_ema timm.pth.tar ema.safetensors
pgdiff ema.safetensors --part g_ema stylegan2.pt
pgdiff --part model --part-b student torchvision_ema.pth dino.pth
pgunwrap --part model_ema torchvision_ema.pth avg.safetensors
pgdiff avg.safetensors ema.safetensors
pgunwrap --part student dino.pth student.safetensors
pgcheck --part teacher dino.pth
pgsplit --part g stylegan2.pt shards
pginfo --part optimizer tutorial.pt && exit 1
pginfo --part optimizer_state_dict tutorial.pt
pginfo --part . dino.pth | head -3
echo
for f in yolov5.pt yolov8.pt stylegan3.pkl optimizer.pt scheduler.pt rng_state.pth training_args.bin accelerate_random_states_0.pkl; do
    pginfo $f || echo "exit $?"
    pgconvert $f refused.safetensors 2>&1 || echo "exit $?"
done
pgcheck timm.pth.tar || echo "exit $?"
pgdiff timm.pth.tar plain.safetensors || echo "exit $?"
pgdiff --json timm.pth.tar plain.safetensors || echo "exit $?"
pgsplit stylegan2.pt more || echo "exit $?"
pgunwrap --part nothing dino.pth refused.safetensors || echo "exit $?"
pgconvert --part model plain.safetensors refused.safetensors || echo "exit $?"
pgconvert --part '' timm.pth.tar refused.safetensors || echo "exit $?"
test ! -e refused.safetensors -a ! -e asked.safetensors -a ! -e more
python3 - <<'END'
# nothing of a pickle is run, wherever it stands
import pickle, zipfile

class Evil:
    def __reduce__(self):
        return __import__("os").system, ("touch pwned",)

with zipfile.ZipFile("evil.pt", "w") as z:
    z.writestr("m/data.pkl", pickle.dumps({"args": Evil(), "epoch": 3}, 2))
END
pginfo evil.pt || echo "exit $?"
test ! -e pwned
pginfo --html page.html timm.pth.tar
grep -o "<li>[^<]*tensors\?" page.html
