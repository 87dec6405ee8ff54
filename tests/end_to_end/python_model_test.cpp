// What a network of Python may be and do, through the real programs.

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/latest_weights.h"
#include "tests/support/program.h"
#include "tests/support/shared_folder.h"
#include "tests/support/torch_python.h"

namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

/// A network of two convolutional blocks; what `forward_code` does with `x` first, and its parts in
/// `constructor_code`.
std::string net(const std::string& forward_code = "", const std::string& constructor_code = "",
                const std::string& before = "") {
  return "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n" + before + R"(

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1)
        self.norm = nn.GroupNorm(1, width)
        self.drop = nn.Dropout2d(0.2)

    def forward(self, x, scale=None):
        y = self.drop(F.gelu(self.norm(self.conv(x))))
        return x + (y if scale is None else y * scale)


class Net(nn.Module):
    def __init__(self, num_classes, width=4, depth=2):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 4, 4)
        self.blocks = nn.ModuleList([Block(width) for _ in range(depth)])
        self.fc = nn.Linear(width, num_classes)
)" + constructor_code +
         R"(
    def forward(self, x):
)" + forward_code +
         R"(
        x = self.stem(x)
        for number, block in enumerate(self.blocks):
            x = block(x, scale=0.5) if number else block(x)
        return self.fc(x.mean((2, 3)))


def make(num_classes, **arguments):
    return Net(num_classes, **arguments)
)";
}

constexpr const char* kRecipe = R"(schema: 1
name: own
seed: 42
device: cpu
defaults: [{data: image_folder}, {memory: auto}, {train: from_scratch}, _self_]
data: {root: photos, image_size: 16, loader: {workers: 0}, split: {train: 0.6, validation: 0.2, test: 0.2}}
model: {kind: model.python, entry: "my_net.py:make"}
train: {epochs: 2, batch_size: 8, checkpoint: {every: {steps: 1}}}
evaluate: {kind: evaluate.classification}
)";

class HostedModel : public testing::Test {
 protected:
  void SetUp() override {
    if (!python_) GTEST_SKIP() << kNoTorchPython;
    if (folder_.is_made()) return;
    const Ended made =
        retort("data make image_folder --out photos --classes 3 --per-class 12 --size 16 -q",
               folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
    folder_.write("own.yaml", kRecipe);
    folder_.keep();
  }

  /// A command of `retort` with the user's own trust and cache, in this folder.
  Ended here(const std::string& arguments, const std::string& variables = "") const {
    return run_shell("export RETORT_CACHE=$PWD/cache XDG_CONFIG_HOME=$PWD/config; " + variables +
                         ' ' + RETORT_BINARY_DIR "/bin/retort " + arguments,
                     folder_.path());
  }
  void trust(const std::string& file, const std::string& text) const {
    folder_.write(file, text);
    ASSERT_EQ(here("trust " + file).exit, 0);
  }
  Ended train(const std::string& more = "", const std::string& name = "run") const {
    return here("run own.yaml run.dir=" + name + " python=" + python_->string() + ' ' + more);
  }
  /// A training of `code` that fails, and leaves Python's traceback in its log.
  std::string failure(const std::string& code) const {
    trust("my_net.py", code);
    fs::remove_all(folder_ / "run");
    const Ended run = train();
    EXPECT_NE(run.exit, 0) << run.err;
    EXPECT_NE(run.exit, 70) << run.err;
    return run.err;
  }
  std::string weights(const std::string& name) const { return latest_weights(folder_ / name); }
  Ended python(const std::string& program) const {
    folder_.write("program.py", program);
    return run_shell(python_->string() + " program.py", folder_.path());
  }

  SharedFolder folder_;
  const std::optional<fs::path> python_ = torch_python();
};

// What may be imported.

TEST_F(HostedModel, HelperThatIsNotTrustedDoesNotRun) {
  folder_.write("helper.py", "open('ran', 'w')\n");
  const std::string error = failure(net("", "", "import helper\n"));
  EXPECT_THAT(error, HasSubstr("the Python file 'helper.py' was never trusted"));
  EXPECT_THAT(error, HasSubstr("retort trust helper.py"));
  EXPECT_FALSE(fs::exists(folder_ / "ran"));
}

TEST_F(HostedModel, UntrustedHelperThatIsCaughtIsRefusedAllTheSame) {
  folder_.write("tools/__init__.py", "");
  folder_.write("tools/layers.py", "open('ran', 'w')\n");
  ASSERT_EQ(here("trust tools/__init__.py").exit, 0);
  const std::string error =
      failure(net("", "", "try:\n    import tools.layers\nexcept Exception:\n    pass\n"));
  EXPECT_THAT(error, HasSubstr("'tools/layers.py' was never trusted"));
  EXPECT_FALSE(fs::exists(folder_ / "ran"));
}

TEST_F(HostedModel, TrustedHelperAndPackageAreImported) {
  trust("helper.py", "WIDTH = 4\n");
  trust("tools/layers.py", "from helper import WIDTH\n");  // a folder without __init__.py
  trust("my_net.py", net("", "", "import helper\nfrom tools.layers import WIDTH\n"));
  const Ended run = train("train.epochs=1");
  EXPECT_EQ(run.exit, 0) << run.err;
}

TEST_F(HostedModel, FileThatIsEditedDuringTheRunDoesNotRun) {
  trust("late.py", "");
  const std::string error = failure(
      net("        import late\n", "        open('late.py', 'w').write('open(\"ran\", \"w\")')\n"));
  EXPECT_THAT(error, HasSubstr("the Python file 'late.py' has changed since the run began"));
  EXPECT_FALSE(fs::exists(folder_ / "ran"));
}

TEST_F(HostedModel, TwoModulesOfOneNameAreRefused) {
  trust("helper.py", "");
  trust("code/helper.py", "");
  trust("code/my_net.py", net("", "", "import helper\n"));
  const Ended run = train("model.entry=code/my_net.py:make");
  EXPECT_NE(run.exit, 0);
  EXPECT_THAT(run.err, HasSubstr("there are two Python modules called 'helper': "
                                 "'code/helper.py' and 'helper.py'"));
}

// Random numbers.

TEST_F(HostedModel, DrawsOfItsOwnAreFoundBeforeTheRunAndRepeated) {
  trust("my_net.py", net("        x = F.dropout(x, 0.1, self.training)\n"));
  const Ended run = train("", "one");
  ASSERT_EQ(run.exit, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("the network draws random numbers by itself"));
  EXPECT_THAT(run.err, HasSubstr("(my_net.py:"));
  ASSERT_EQ(train("", "again").exit, 0);
  EXPECT_FALSE(weights("one").empty());
  EXPECT_TRUE(weights("one") == weights("again"));
}

TEST_F(HostedModel, DrawsOfItsOwnAreTheSameAfterAKill) {
  trust("my_net.py", net("        if self.training: x = x + 0.1 * torch.rand_like(x)\n"));
  ASSERT_EQ(train("", "whole").exit, 0);
  const Ended killed =
      here("run own.yaml run.dir=run memory.max_retries=0 python=" + python_->string(),
           "RETORT_FAULT=retort-worker/step:4:kill");
  ASSERT_NE(killed.exit, 0);
  const Ended resumed = here("resume run");
  ASSERT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_TRUE(weights("whole") == weights("run"));
}

TEST_F(HostedModel, DropoutInsideAnAttentionIsFound) {
  const auto attending = [](const std::string& probability) {
    return net(
        "        x = self.mix(x.flatten(1, 2), x.flatten(1, 2), x.flatten(1, 2))[0]\n"
        "        return self.fc(x.mean(1)[:, :4])\n",
        "        self.mix = nn.MultiheadAttention(16, 2, batch_first=True, dropout=" + probability +
            ")\n");
  };
  trust("my_net.py", attending("0.1"));
  const Ended drawing = train("train.epochs=1", "drawing");
  ASSERT_EQ(drawing.exit, 0) << drawing.err;
  EXPECT_THAT(drawing.err, HasSubstr("the network draws random numbers by itself"));
  trust("my_net.py", attending("0.0"));
  const Ended still = train("train.epochs=1", "still");
  ASSERT_EQ(still.exit, 0) << still.err;
  EXPECT_THAT(still.err, Not(HasSubstr("the network draws random numbers by itself")));
}

TEST_F(HostedModel, BatchOfANetworkThatDrawsIsNotCut) {
  trust("my_net.py", net("        x = F.dropout(x, 0.1, self.training)\n"));
  const Ended refused = train("memory.micro_batch=4");
  EXPECT_EQ(refused.exit, 78) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("the network draws random numbers by itself: aten::"));
}

TEST_F(HostedModel, DrawsInEvaluationAreRefused) {
  const std::string error = failure(net("        x = F.dropout(x, 0.1)\n"));
  EXPECT_THAT(error, HasSubstr("the network draws random numbers in evaluation"));
}

TEST_F(HostedModel, DrawsOfPythonsGeneratorAreRefusedBeforeTheRun) {
  const std::string error =
      failure(net("        x = x * random.random()\n", "", "import random\n"));
  EXPECT_THAT(error, HasSubstr("draws from the generator of Python or numpy"));
  EXPECT_FALSE(fs::exists(folder_ / "run/nodes/train/checkpoints/latest"));
}

TEST_F(HostedModel, ChannelsAreDroppedAlikeInACutBatch) {
  trust("my_net.py", net());
  const Ended certified =
      here("certify own.yaml memory.micro_batch=3 --json python=" + python_->string());
  EXPECT_EQ(certified.exit, 0) << certified.err << certified.out;
  EXPECT_THAT(certified.out, HasSubstr("with dropout"));
}

// Blocks that are recomputed, layers with adapters.

TEST_F(HostedModel, RecomputedBlocksTrainToTheSameWeights) {
  trust("my_net.py", net("        x = F.dropout(x, 0.1, self.training)\n"));
  ASSERT_EQ(train("memory.activation_checkpointing=none", "kept").exit, 0);
  const Ended again = train("memory.activation_checkpointing=block", "recomputed");
  ASSERT_EQ(again.exit, 0) << again.err;
  EXPECT_FALSE(weights("kept").empty());
  EXPECT_TRUE(weights("kept") == weights("recomputed"));
}

TEST_F(HostedModel, RecomputedBlocksAreCertifiedAndNeedLessMemory) {
  trust("my_net.py", net());
  const auto planned = [&](const std::string& which) {
    const Ended plan = here(
        "plan own.yaml --json +model.arguments.width=32 +model.arguments.depth=8 "
        "memory.activation_checkpointing=" +
        which + " python=" + python_->string());
    EXPECT_EQ(plan.exit, 0) << plan.err;
    return json::parse(plan.out)["result"]["plans"][0]["live"].get<std::int64_t>();
  };
  EXPECT_LT(planned("block"), planned("none"));
  const Ended certified = here(
      "certify own.yaml memory.activation_checkpointing=block --json python=" + python_->string());
  EXPECT_EQ(certified.exit, 0) << certified.err << certified.out;
}

TEST_F(HostedModel, BlockHasAPrecisionOfItsOwn) {
  trust("my_net.py", net("", R"(
        for number, block in enumerate(self.blocks):
            block.conv.register_forward_hook(
                lambda module, inputs, output, n=number: print(n, output.dtype, file=open('seen', 'a')))
)"));
  const Ended run =
      train("train.epochs=1 'memory.precision={default: fp32, model.blocks.1: bf16}'");
  ASSERT_EQ(run.exit, 0) << run.err;
  const std::string seen = file_text(folder_ / "seen");
  EXPECT_THAT(seen, HasSubstr("0 torch.float32"));
  EXPECT_THAT(seen, HasSubstr("1 torch.bfloat16"));
  EXPECT_THAT(seen, Not(HasSubstr("0 torch.bfloat16")));
}

TEST_F(HostedModel, BlockOfSeveralTensorsIsNotOneToRecompute) {
  trust("my_net.py", net("        for pair in self.pairs: x = pair(x, self.shift * x)\n", R"(
        self.shift = nn.Parameter(torch.ones(1))
        self.pairs = nn.ModuleList([Pair(), Pair()])
)",
                         R"(
class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Conv2d(3, 3, 1)

    def forward(self, one, other):
        return self.mix(one) + other

)"));
  const Ended blocks = train("train.epochs=1 memory.activation_checkpointing=block", "blocks");
  EXPECT_EQ(blocks.exit, 0) << blocks.err;
  const Ended pair = train("'memory.activation_checkpointing=[model.pairs.0]'", "pair");
  EXPECT_EQ(pair.exit, 78) << pair.err;
  EXPECT_THAT(pair.err, HasSubstr("names nothing that can be recomputed on its own"));
}

TEST_F(HostedModel, AdaptersTrainAndAreExportedInTheNetwork) {
  trust("my_net.py", net());
  const std::string adapters =
      "'model.adapters={targets: [conv, stem], rank: 2, modules_to_save: [fc]}'";
  const Ended run = train(adapters);
  ASSERT_EQ(run.exit, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("trainable params: "));
  const Ended exported = here("export run --out out");
  ASSERT_EQ(exported.exit, 0) << exported.err;
  const Ended loaded = python(R"(
import json
import torch
from safetensors.torch import load_file
import my_net
torch.manual_seed(1)
with open('out/network.json') as file:
    network = my_net.make(**json.load(file)['arguments'])
network.load_state_dict(load_file('out/model.safetensors'))
print(sorted(network.state_dict()) == sorted(load_file('out/model.safetensors')))
)");
  EXPECT_EQ(loaded.exit, 0) << loaded.err;
  EXPECT_EQ(loaded.out, "True\n");
  const Ended predicted = here("predict run photos --top 1");
  EXPECT_EQ(predicted.exit, 0) << predicted.err;
}

TEST_F(HostedModel, AdapterOfALayerThatIsNotCalledIsRefused) {
  trust("my_net.py", net("        x = F.linear(x, self.mix.weight)\n",
                         "        self.mix = nn.Linear(16, 16)\n"));
  const Ended run = train("'model.adapters={targets: [mix], modules_to_save: [fc]}'");
  EXPECT_EQ(run.exit, 78) << run.err;
  EXPECT_THAT(run.err, HasSubstr("the adapter of 'mix' has no effect: the network does not call"));
}

TEST_F(HostedModel, UnknownTargetSuggestsNearest) {
  trust("my_net.py", net());
  const Ended run = train("'model.adapters={targets: [cnv]}'");
  EXPECT_EQ(run.exit, 78) << run.err;
  EXPECT_THAT(run.err, HasSubstr("no layer is called 'cnv'"));
  EXPECT_THAT(run.err, HasSubstr("conv"));
}

TEST_F(HostedModel, AveragedAndFrozenNetworkIsExportedAndStartsAnother) {
  trust("my_net.py", net("", "        self.stem.weight.requires_grad_(False)\n"));
  const Ended run = train("train.ema.decay=0.9");
  ASSERT_EQ(run.exit, 0) << run.err;
  const Ended exported = here("export run --out out");
  ASSERT_EQ(exported.exit, 0) << exported.err;
  EXPECT_THAT(file_text(folder_ / "out/README.md"), HasSubstr("averaged over the steps"));
  const Ended warm = train("train.warm_start=out/model.safetensors", "second");
  EXPECT_EQ(warm.exit, 0) << warm.err;
}

TEST_F(HostedModel, PredictionIsExplainedOnTheLastConvolution) {
  trust("my_net.py", net());
  ASSERT_EQ(train("train.epochs=1").exit, 0);
  const Ended predicted = here("predict run photos --explain maps --top 1");
  ASSERT_EQ(predicted.exit, 0) << predicted.err;
  EXPECT_FALSE(fs::is_empty(folder_ / "maps"));
}

TEST_F(HostedModel, PretrainedWeightsOfOtherPixelsAreRefused) {
  trust("my_net.py", net("", R"(
        self.pretrained_cfg = {'input_size': (3, 16, 16), 'mean': (0.1, 0.2, 0.3), 'std': (1, 1, 1)}
)") + "\n\ndef pretrained(num_classes, pretrained):\n    return Net(num_classes)\n");
  const std::string model = "model.entry=my_net.py:pretrained +model.arguments.pretrained=";
  const Ended refused = train(model + "true");
  EXPECT_EQ(refused.exit, 78) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("trained on pixels with the mean [0.1,0.2,0.3]"));
  EXPECT_THAT(refused.err, HasSubstr("set data.normalize: {mean: [0.1,0.2,0.3], std: [1,1,1]}"));
  EXPECT_EQ(train(model + "false train.epochs=1", "random").exit, 0);
  EXPECT_EQ(train(model + "true train.epochs=1 "
                          "'data.normalize={mean: [0.1, 0.2, 0.3], std: [1, 1, 1]}'",
                  "same")
                .exit,
            0);
}

// Networks that fail, or do what they must not.

TEST_F(HostedModel, ExceptionsSayWhereTheyWereRaised) {
  const std::string raises = "raise ValueError('no luck')\n";
  EXPECT_THAT(failure(net("", "        " + raises)), HasSubstr("ValueError: no luck ("));
  EXPECT_THAT(failure(net("        if x.device.type != 'meta': " + raises)),
              HasSubstr("ValueError: no luck ("));
  EXPECT_THAT(failure(net("        x = Broken.apply(x * self.one)\n",
                          "        self.one = nn.Parameter(torch.ones(1))\n", R"(
class Broken(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        raise ValueError('no luck')

)")),
              HasSubstr("ValueError: no luck ("));
  EXPECT_THAT(failure(net("        raise SystemExit('leaving')\n")),
              HasSubstr("SystemExit: leaving"));
}

TEST_F(HostedModel, WrongOutputsAreNamed) {
  const auto returning = [&](const std::string& expression) {
    return failure(net("        return " + expression + "\n"));
  };
  EXPECT_THAT(returning("None"), HasSubstr("the network returned NoneType"));
  EXPECT_THAT(returning("self.fc(torch.zeros(2, 4, device=x.device))"),
              HasSubstr("returned logits of the shape (2, 3) for"));
  EXPECT_THAT(returning("torch.zeros(len(x), 7, device=x.device)"),
              HasSubstr("returned 7 logits for each sample, and the data needs 3"));
  EXPECT_THAT(returning("torch.zeros(len(x), 3)"), HasSubstr("returned 'logits' on cpu"));
}

TEST_F(HostedModel, LossThatIsNotFiniteIsNamedWithItsSamples) {
  EXPECT_THAT(failure(net("        x = x * float('nan')\n")), HasSubstr("is not finite at step 1"));
}

TEST_F(HostedModel, NetworkMayNotChangeItsInputOrItsWeights) {
  EXPECT_THAT(failure(net("        x.mul_(2)\n")), HasSubstr("changes its input in place"));
  EXPECT_THAT(
      failure(net("        self.fc.weight = nn.Parameter(self.fc.weight.detach().clone())\n")),
      HasSubstr("has replaced its parameter 'fc.weight'"));
  EXPECT_THAT(failure(net("        self.mean = self.mean + 1\n",
                          "        self.register_buffer('mean', torch.zeros(1))\n")),
              HasSubstr("has replaced its buffer 'mean'"));
  EXPECT_THAT(failure(net("        with torch.no_grad(): self.fc.weight.clamp_(-1, 1)\n")),
              HasSubstr("changes its parameters in its forward pass"));
}

TEST_F(HostedModel, MegabyteOfPrintsThreadsAndForksDoNotDisturbTheRun) {
  trust("my_net.py",
        net(R"(        if x.device.type != 'meta':
            print('x' * (1 << 20))
            if os.fork() == 0:
                raise RuntimeError('the child ends')
)",
            "        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n",
            "import os\nimport threading\nimport time\n"));
  const Ended run = train("train.epochs=1");
  EXPECT_EQ(run.exit, 0) << run.err.substr(0, 2000);
}

TEST_F(HostedModel, CodeThatCatchesInterruptsDoesNotKeepTheRunAlive) {
  trust("my_net.py", net(R"(        if x.device.type != 'meta':
            try:
                open('started', 'w')
                if number_of_calls():
                    os.kill(os.getppid(), signal.SIGINT)
            except BaseException:
                pass
)",
                         "", R"(
import os
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
calls = []
def number_of_calls():
    calls.append(1)
    return len(calls) == 2
)"));
  const Ended run = train("train.epochs=1000");
  EXPECT_EQ(run.exit, 75) << run.err.substr(0, 2000);  // saved
}

}  // namespace
