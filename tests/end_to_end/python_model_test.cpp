// End-to-end tests of what Python networks may contain and do.

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/hosted_runs.h"

namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

/// A network of two convolutional blocks. `forward_code` runs first on `x`, and `constructor_code`
/// adds modules.
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

class HostedModel : public HostedRuns {
 protected:
  void SetUp() override {
    if (!python_) GTEST_SKIP() << kNoTorchPython;
    make_photos_and(kRecipe);
  }

  /// Trains `code`, which must fail and leave Python's traceback in the log.
  std::string failure(const std::string& code) const {
    trust("my_net.py", code);
    fs::remove_all(folder_ / "run");
    const Ended run = train();
    EXPECT_NE(run.exit, 0) << run.err;
    EXPECT_NE(run.exit, 70) << run.err;
    return run.err;
  }
  void expect_certified(const std::string& ranks, const std::string& recomputed) const {
    const Ended certified =
        here("certify own.yaml --json memory.activation_checkpointing=" + recomputed +
             " device.count=" + ranks + " python=" + python_->string());
    EXPECT_EQ(certified.exit, 0) << certified.err << certified.out;
    EXPECT_THAT(certified.out, HasSubstr(ranks + " ranks"));
  }
  Ended python(const std::string& program) const {
    folder_.write("program.py", program);
    return run_shell(python_->string() + " program.py", folder_.path());
  }
};

// Imports.

/// Every command imports torch, which takes seconds.
class DeepHostedModel : public HostedModel {};

TEST_F(DeepHostedModel, UntrustedHelperIsRejectedEvenIfTheErrorIsCaught) {
  folder_.write("tools/__init__.py", "");
  folder_.write("tools/layers.py", "open('ran', 'w')\n");
  ASSERT_EQ(here("trust tools/__init__.py").exit, 0);
  const std::string error =
      failure(net("", "", "try:\n    import tools.layers\nexcept Exception:\n    pass\n"));
  EXPECT_THAT(error, HasSubstr("'tools/layers.py' was never trusted"));
  EXPECT_FALSE(fs::exists(folder_ / "ran"));
}

TEST_F(DeepHostedModel, FileEditedDuringTheRunDoesNotRun) {
  trust("late.py", "");
  const std::string error = failure(
      net("        import late\n", "        open('late.py', 'w').write('open(\"ran\", \"w\")')\n"));
  EXPECT_THAT(error, HasSubstr("the Python file 'late.py' has changed since the run began"));
  EXPECT_FALSE(fs::exists(folder_ / "ran"));
}

TEST_F(DeepHostedModel, ModulesOfTheSameNameAreRejected) {
  trust("helper.py", "");
  trust("code/helper.py", "");
  trust("code/my_net.py", net("", "", "import helper\n"));
  const Ended run = train("model.entry=code/my_net.py:make");
  EXPECT_NE(run.exit, 0);
  EXPECT_THAT(run.err, HasSubstr("there are two Python modules called 'helper': "
                                 "'code/helper.py' and 'helper.py'"));
}

TEST_F(HostedModel, ModulesAreImportedFromTheRecipesFolder) {
  const std::string helped = net("", "", "import helper\n");
  fs::create_directory(folder_ / "sub");
  fs::copy(folder_ / "own.yaml", folder_ / "sub/own.yaml");
  trust("my_net.py", helped);
  folder_.write("sub/helper.py", "open('ran', 'w')\n");
  const auto run = [&](const std::string& name, const std::string& more = "") {
    return here("run sub/own.yaml train.epochs=1 run.dir=" + name + " python=" + python_->string() +
                ' ' + more);
  };
  EXPECT_THAT(run("run").err,
              AllOf(HasSubstr("the Python file 'sub/helper.py' was never trusted, or has changed"),
                    HasSubstr("retort trust sub/helper.py")));
  EXPECT_FALSE(fs::exists(folder_ / "ran"));
  trust("sub/helper.py", "");
  ASSERT_EQ(run("run").exit, 0);
  folder_.write("elsewhere/empty", "");
  const Ended again = here("runs rerun ../run run.dir=../again", "", "elsewhere");
  EXPECT_EQ(again.exit, 0) << again.err;
  EXPECT_TRUE(weights("again") == weights("run"));
  // A module as the entry, and not only as an import.
  trust("sub/other_net.py", helped);
  EXPECT_EQ(run("module", "model.entry=other_net:make").exit, 0);
  EXPECT_THAT(run("file", "model.entry=other_net.py:make").err,
              HasSubstr("the recipe's folder has one: 'sub/other_net.py'"));
  trust("helper.py", "");
  EXPECT_THAT(run("two").err, HasSubstr("there are two Python modules called 'helper': "
                                        "'helper.py' and 'sub/helper.py'"));
}

TEST_F(DeepHostedModel, TrialsAndResumedRunsImportFromTheRecipesFolder) {
  fs::create_directory(folder_ / "sub");
  fs::copy(folder_ / "own.yaml", folder_ / "sub/own.yaml");
  trust("my_net.py", net("", "", "import helper\n"));
  trust("sub/helper.py", "");
  const std::string recipe =
      " sub/own.yaml train.epochs=1 memory.max_retries=0 python=" + python_->string();
  const Ended swept = here("sweep" + recipe + " sweep.dir=swept train.batch_size=8,12");
  EXPECT_EQ(swept.exit, 0) << swept.err;
  ASSERT_NE(here("run run.dir=run" + recipe, "RETORT_FAULT=retort-worker/step:2:kill").exit, 0);
  folder_.write("elsewhere/empty", "");
  const Ended resumed = here("resume ../run", "", "elsewhere");
  EXPECT_EQ(resumed.exit, 0) << resumed.err;
}

// Random numbers.

TEST_F(HostedModel, OwnRandomNumbersAreDetectedAndTheSameInRecomputedBlocks) {
  trust("my_net.py", net("        x = F.dropout(x, 0.1, self.training)\n"));
  const Ended kept = train("memory.activation_checkpointing=none", "kept");
  ASSERT_EQ(kept.exit, 0) << kept.err;
  EXPECT_THAT(kept.err, HasSubstr("the network draws random numbers on its own"));
  EXPECT_THAT(kept.err, HasSubstr("(my_net.py:"));
  const Ended again = train("memory.activation_checkpointing=block", "recomputed");
  ASSERT_EQ(again.exit, 0) << again.err;
  EXPECT_FALSE(weights("kept").empty());
  EXPECT_TRUE(weights("kept") == weights("recomputed"));
}

TEST_F(DeepHostedModel, OwnRandomNumbersAreTheSameAfterAResume) {
  trust("my_net.py", net("        if self.training: x = x + 0.1 * torch.rand_like(x)\n"));
  ASSERT_EQ(train("", "whole").exit, 0);
  const Ended killed =
      train("memory.max_retries=0", "run", "RETORT_FAULT=retort-worker/step:4:kill");
  ASSERT_NE(killed.exit, 0);
  const Ended resumed = here("resume run");
  ASSERT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_TRUE(weights("whole") == weights("run"));
}

TEST_F(HostedModel, DropoutInsideAttentionRulesOutMicroBatches) {
  const auto attending = [](const std::string& probability) {
    return net(
        "        x = self.mix(x.flatten(1, 2), x.flatten(1, 2), x.flatten(1, 2))[0]\n"
        "        return self.fc(x.mean(1)[:, :4])\n",
        "        self.mix = nn.MultiheadAttention(16, 2, batch_first=True, dropout=" + probability +
            ")\n");
  };
  const std::string parts = "train.epochs=1 memory.micro_batch=4";
  trust("my_net.py", attending("0.1"));
  const Ended drawing = train(parts);
  EXPECT_EQ(drawing.exit, 78) << drawing.err;
  EXPECT_THAT(drawing.err, HasSubstr("the network draws random numbers on its own: aten::"));
  trust("my_net.py", attending("0.0"));
  const Ended still = train(parts);
  EXPECT_EQ(still.exit, 0) << still.err;
}

TEST_F(HostedModel, RandomNumbersInEvaluationAreRejected) {
  const std::string error = failure(net("        x = F.dropout(x, 0.1)\n"));
  EXPECT_THAT(error, HasSubstr("the network draws random numbers in evaluation"));
}

TEST_F(HostedModel, RandomNumbersFromPythonAreRejectedBeforeTheRun) {
  const std::string error =
      failure(net("        x = x * random.random()\n", "", "import random\n"));
  EXPECT_THAT(error, HasSubstr("draws random numbers with Python or numpy"));
  EXPECT_FALSE(fs::exists(folder_ / "run/nodes/train/checkpoints/latest"));
}

TEST_F(HostedModel, ChannelDropoutIsTheSameInMicroBatches) {
  trust("my_net.py", net());
  const Ended certified =
      here("certify own.yaml memory.micro_batch=3 --json python=" + python_->string());
  EXPECT_EQ(certified.exit, 0) << certified.err << certified.out;
  EXPECT_THAT(certified.out, HasSubstr("with dropout"));
}

TEST_F(DeepHostedModel, AlphaDropoutIsTheSameInMicroBatches) {
  for (const char* layer : {"AlphaDropout", "FeatureAlphaDropout"}) {
    trust("my_net.py", net("        x = self.alpha(x)\n",
                           "        self.alpha = nn." + std::string(layer) + "(0.3)\n"));
    const Ended certified =
        here("certify own.yaml memory.micro_batch=3 --json python=" + python_->string());
    EXPECT_EQ(certified.exit, 0) << layer << certified.err << certified.out;
    const Ended run = train("train.epochs=1", layer);
    ASSERT_EQ(run.exit, 0) << run.err;
    EXPECT_THAT(run.err, Not(HasSubstr("draws random numbers on its own")));
  }
}

TEST_F(HostedModel, AlphaDropoutMatchesTorch) {
  const Ended same =
      python("import sys; sys.path.insert(0, '" RETORT_SOURCE_DIR
             "/stages/python')\n"
             "import torch\n"
             "from retort_host.draws import alpha_dropout\n"
             "torch.manual_seed(1)\n"
             "x = torch.full((64, 8), 10.0)\n"
             "for p in (0.1, 0.5):\n"
             "    expected = torch.nn.functional.alpha_dropout(x, p, training=True)\n"
             "    kept = expected > expected.mean()\n"
             "    assert 0 < kept.float().mean() < 1\n"
             "    torch.testing.assert_close(alpha_dropout(x, kept, p), expected)\n");
  EXPECT_EQ(same.exit, 0) << same.err;
}

// One run.

/// Tests of one run, which the first of them makes. The network imports trusted files and writes
/// the types of its blocks' outputs to the file `seen`; one block is in bf16 and has its own
/// learning rate.
class HostedModelRun : public HostedModel {
 protected:
  void SetUp() override {
    HostedModel::SetUp();
    if (IsSkipped() || fs::exists(folder_ / "run")) return;
    trust("helper.py", "WIDTH = 4\n");
    trust("tools/layers.py", "from helper import WIDTH\n");  // a folder without __init__.py
    trust("my_net.py", net("", R"(
        for number, block in enumerate(self.blocks):
            block.conv.register_forward_hook(
                lambda module, inputs, output, n=number: print(n, output.dtype, file=open('seen', 'a')))
)",
                           "import helper\nfrom tools.layers import WIDTH\n"));
    install("1.0");
    const Ended run = train(
        "train.epochs=1 train.layer_decay=0.5 'model.blocks=[blocks.1]' "
        "'memory.precision={default: fp32, model.blocks.1: bf16}'",
        "run", site());
    ASSERT_EQ(run.exit, 0) << run.err;
    folder_.keep();
  }
  /// Installs a version of the package My_Layers, next to a damaged one.
  void install(const std::string& version) const {
    fs::remove_all(folder_ / "site");
    folder_.write("site/my_layers-" + version + ".dist-info/METADATA",
                  "Metadata-Version: 2.1\nName: My_Layers\nVersion: " + version + "\n");
    folder_.write("site/broken-1.dist-info/METADATA", "Name: broken\nVersion: 1\n");
    folder_.write("site/broken-1.dist-info/direct_url.json", "{");
  }
  std::string site() const { return "PYTHONPATH=" + (folder_ / "site").string(); }
};

TEST_F(HostedModelRun, PackagesAreRecordedAndChangesAreReported) {
  const json python = json::parse(file_text(folder_ / "run/.retort/environment.json")).at("python");
  EXPECT_EQ(python.at("packages").at("my-layers"), "1.0");
  EXPECT_TRUE(python.at("packages").contains("torch"));
  EXPECT_TRUE(python.at("version").is_string());
  install("1.1");
  const Ended again = here("runs rerun run run.dir=again", site());
  EXPECT_EQ(again.exit, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("the Python package my-layers was 1.0 and is now 1.1"));
  EXPECT_THAT(again.err, HasSubstr("the result may be different"));
}

TEST_F(HostedModelRun, BlockCanHaveItsOwnPrecision) {
  const std::string seen = file_text(folder_ / "seen");
  EXPECT_THAT(seen, HasSubstr("0 torch.float32"));
  EXPECT_THAT(seen, HasSubstr("1 torch.bfloat16"));
  EXPECT_THAT(seen, Not(HasSubstr("0 torch.bfloat16")));
}

TEST_F(HostedModelRun, LayerDecayCountsNamedBlocks) {
  const std::string metrics = file_text(folder_ / "run/metrics.jsonl");
  EXPECT_THAT(metrics, HasSubstr("train/learning_rate/layer_0"));
  EXPECT_THAT(metrics, HasSubstr("train/learning_rate/layer_1"));
  EXPECT_THAT(metrics, Not(HasSubstr("train/learning_rate/layer_2")));
  const Ended unknown = train("'model.blocks=[block.*]'", "unknown");
  EXPECT_EQ(unknown.exit, 78) << unknown.err;
  EXPECT_THAT(unknown.err, HasSubstr("'block.*' matches no module of the network"));
}

TEST_F(HostedModelRun, PredictionIsExplainedOnTheLastConvolution) {
  const Ended predicted = here("predict run photos --explain maps --top 1");
  ASSERT_EQ(predicted.exit, 0) << predicted.err;
  EXPECT_FALSE(fs::is_empty(folder_ / "maps"));
}

// Layers that mix the samples of a batch, with several ranks.

/// The network with BatchNorm in its blocks, and BatchNorm1d before its head.
std::string normed_net(const std::string& norm = "nn.BatchNorm2d(width)",
                       const std::string& before = "") {
  std::string code = net("", "        self.last = nn.BatchNorm1d(width)\n", before);
  const auto replace = [&](const std::string& old, const std::string& with) {
    code.replace(code.find(old), old.size(), with);
  };
  replace("nn.GroupNorm(1, width)", norm);
  replace("self.fc(x.mean((2, 3)))", "self.fc(self.last(x.mean((2, 3))))");
  return code;
}

TEST_F(HostedModel, RanksNormalizeOverTheWholeBatch) {
  trust("my_net.py", normed_net("nn.BatchNorm2d(width)"));
  expect_certified("2", "block");
}

TEST_F(DeepHostedModel, AnyNumberOfRanksNormalizesOverTheWholeBatch) {
  for (const char* const norm : {"nn.BatchNorm2d(width)", "nn.SyncBatchNorm(width)"}) {
    SCOPED_TRACE(norm);
    trust("my_net.py", normed_net(norm));
    for (const char* const ranks : {"2", "7"}) {
      for (const char* const recomputed : {"none", "block"}) expect_certified(ranks, recomputed);
    }
  }
  const Ended run = train("device.count=3", "ranks");
  EXPECT_EQ(run.exit, 0) << run.err;
  const Ended again = train("device.count=3 memory.activation_checkpointing=block", "ranks-again");
  EXPECT_EQ(again.exit, 0) << again.err;
  EXPECT_TRUE(weights("ranks-again") == weights("ranks")) << "reproducible bit for bit";
}

TEST_F(DeepHostedModel, RanksNormalizeLayersOfTimm) {
  if (!torch_python_has("timm")) GTEST_SKIP() << "that Python has no package 'timm'";
  for (const char* const model : {"resnet10t", "resnetv2_50"}) {
    trust("my_net.py", "import timm\n\n\ndef make(num_classes):\n    return timm.create_model('" +
                           std::string(model) + "', num_classes=num_classes)\n");
    const Ended certified = here(
        "certify own.yaml data.image_size=64 --json device.count=2 python=" + python_->string());
    EXPECT_EQ(certified.exit, 0) << model << certified.err << certified.out;
  }
}

TEST_F(DeepHostedModel, CustomLayersThatMixSamplesAreRejectedWithSeveralRanks) {
  trust("my_net.py", normed_net("Own(width)",
                                "\n\nclass Own(nn.BatchNorm2d):\n    def forward(self, x):\n"
                                "        return x - x.mean((0, 2, 3), keepdim=True)\n"));
  const std::string plan = "plan own.yaml device.count=2 python=" + python_->string();
  const Ended by_itself = here(plan);
  EXPECT_EQ(by_itself.exit, 78) << by_itself.err;
  EXPECT_THAT(by_itself.err, HasSubstr("'blocks.0.norm' (Own) mixes the samples of a batch"));
  EXPECT_THAT(by_itself.err, HasSubstr("[/device/count]"));

  trust("my_net.py", net("        x = F.batch_norm(x, None, None, training=True)\n"));
  const Ended by_function = here(plan);
  EXPECT_NE(by_function.exit, 0);
  EXPECT_THAT(by_function.err, HasSubstr("outside of a BatchNorm layer"));

  trust("my_net.py", net("        x = F.instance_norm(x)\n"));
  EXPECT_EQ(here("certify own.yaml device.count=2 python=" + python_->string()).exit, 0);
}

// Activation checkpointing and adapters.

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

TEST_F(HostedModel, BlockWithSeveralInputsIsNotRecomputed) {
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
  EXPECT_THAT(pair.err, HasSubstr("does not match any module that can be recomputed on its own"));
}

TEST_F(HostedModel, AdaptersAreTrainedAndMergedOnExport) {
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

constexpr const char* kConvolutionAdapters =
    "'model.adapters={targets: [conv, stem], rank: 2, dropout: 0, modules_to_save: [fc]}'";

TEST_F(HostedModel, AdaptersAreExportedInPeftsFormat) {
  trust("my_net.py",
        net("        x = self.scale(x)\n", "        self.scale = nn.BatchNorm2d(3)\n"));
  const Ended run = train(kConvolutionAdapters);
  ASSERT_EQ(run.exit, 0) << run.err;
  const Ended named = here("export run --adapter --names timm --out named");
  EXPECT_THAT(named.err, HasSubstr("leave out --names and --head-inside"));
  ASSERT_EQ(here("export run --out merged").exit, 0);
  const Ended exported = here("export run --adapter --out adapter");
  ASSERT_EQ(exported.exit, 0) << exported.err;
  EXPECT_THAT(exported.out, HasSubstr("adapter/base/model.safetensors"));
  const json config = json::parse(file_text(folder_ / "adapter/adapter_config.json"));
  EXPECT_EQ(config["target_modules"], (json{"conv", "stem"}));
  EXPECT_EQ(config["modules_to_save"], json{"fc"});
  EXPECT_EQ(config["auto_mapping"],
            (json{{"base_model_class", "Net"}, {"parent_library", "my_net"}}));
  const Ended names = python(R"(
from safetensors.torch import load_file
for name, tensor in load_file('adapter/adapter_model.safetensors').items():
    print(name, *tensor.shape)
)");
  for (const char* const line :
       {"base_model.model.blocks.0.conv.lora_A.weight 2 4 3 3\n",
        "base_model.model.blocks.1.conv.lora_B.weight 4 2 1 1\n",
        "base_model.model.stem.lora_A.weight 2 3 4 4\n", "base_model.model.fc.weight 3 4\n"})
    EXPECT_THAT(names.out, HasSubstr(line)) << names.err;
  if (python("import peft").exit != 0) GTEST_SKIP() << "that Python has no package 'peft'";
  // The README's program, and the merged network, on the same input.
  const Ended same = python(R"(
import json
import re
import torch
from safetensors.torch import load_file
def loaded(folder):
    program = re.search('```python(.*?)```', open(f'{folder}/README.md').read(), re.DOTALL)[1]
    names = {}
    exec(program.replace('folder = "."', f'folder = "{folder}"'), names)
    return names['network']
torch.manual_seed(1)
x = torch.rand(5, 3, 16, 16)
adapted, merged = loaded('adapter')(x), loaded('merged')(x)
torch.testing.assert_close(adapted, merged)
base = load_file('adapter/base/model.safetensors')
assert not torch.equal(base['stem.weight'], load_file('merged/model.safetensors')['stem.weight'])
)");
  EXPECT_EQ(same.exit, 0) << same.err;
}

TEST_F(HostedModel, TrainingStartsFromAnAdapterOfPeft) {
  trust("my_net.py", net());
  if (python("import peft").exit != 0) GTEST_SKIP() << "that Python has no package 'peft'";
  const Ended saved = python(R"(
import peft
import torch
import my_net
torch.manual_seed(1)
network = peft.get_peft_model(my_net.make(3), peft.LoraConfig(
    r=2, lora_alpha=16, target_modules=['conv', 'stem'], modules_to_save=['fc'], init_lora_weights=False))
network.save_pretrained('theirs')
)");
  ASSERT_EQ(saved.exit, 0) << saved.err;
  // A rate that changes no float32 weight.
  const Ended run = train(std::string(kConvolutionAdapters) +
                          " +model.adapters.adapter=theirs train.epochs=1 "
                          "train.optimizer.learning_rate=1e-30");
  ASSERT_EQ(run.exit, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("starts from the adapter in 'theirs'"));
  ASSERT_EQ(here("export run --adapter --out ours").exit, 0);
  const Ended same = python(R"(
import torch
from safetensors.torch import load_file
theirs, ours = (load_file(f'{folder}/adapter_model.safetensors') for folder in ('theirs', 'ours'))
assert sorted(theirs) == sorted(ours), (sorted(theirs), sorted(ours))
for name in theirs: assert torch.equal(theirs[name], ours[name]), name
)");
  EXPECT_EQ(same.exit, 0) << same.err;
}

TEST_F(HostedModel, AdapterOfALayerThatIsNotCalledIsRejected) {
  trust("my_net.py", net("        x = F.linear(x, self.mix.weight)\n",
                         "        self.mix = nn.Linear(16, 16)\n"));
  const Ended run = train("'model.adapters={targets: [mix], modules_to_save: [fc]}'");
  EXPECT_EQ(run.exit, 78) << run.err;
  EXPECT_THAT(run.err, HasSubstr("the adapter of 'mix' has no effect: the network does not call"));
}

TEST_F(HostedModel, UnknownTargetSuggestsTheNearestName) {
  trust("my_net.py", net());
  const Ended run = train("'model.adapters={targets: [cnv]}'");
  EXPECT_EQ(run.exit, 78) << run.err;
  EXPECT_THAT(run.err, HasSubstr("no layer is called 'cnv'"));
  EXPECT_THAT(run.err, HasSubstr("conv"));
}

TEST_F(DeepHostedModel, AveragedAndFrozenNetworkCanBeExportedForAWarmStart) {
  trust("my_net.py", net("", "        self.stem.weight.requires_grad_(False)\n"));
  const Ended run = train("train.ema.decay=0.9");
  ASSERT_EQ(run.exit, 0) << run.err;
  const Ended exported = here("export run --out out");
  ASSERT_EQ(exported.exit, 0) << exported.err;
  EXPECT_THAT(file_text(folder_ / "out/README.md"), HasSubstr("averaged over the training steps"));
  const Ended warm = train("train.warm_start=out/model.safetensors", "second");
  EXPECT_EQ(warm.exit, 0) << warm.err;
}

TEST_F(HostedModel, PretrainedWeightsWithOtherNormalizationAreRejected) {
  trust("my_net.py", net("", R"(
        self.pretrained_cfg = {'input_size': (3, 16, 16), 'mean': (0.1, 0.2, 0.3), 'std': (1, 1, 1)}
)") + "\n\ndef pretrained(num_classes, pretrained):\n    return Net(num_classes)\n");
  const std::string model = "model.entry=my_net.py:pretrained +model.arguments.pretrained=";
  const Ended refused = train(model + "true");
  EXPECT_EQ(refused.exit, 78) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("trained on pixels with the mean [0.1,0.2,0.3]"));
  EXPECT_THAT(refused.err, HasSubstr("set data.normalize: {mean: [0.1,0.2,0.3], std: [1,1,1]}"));
  EXPECT_EQ(train(model + "false train.epochs=1", "random").exit, 0);
  EXPECT_EQ(
      train(model + "true train.epochs=1 'data.normalize={mean: [0.1, 0.2, 0.3], std: [1, 1, 1]}'",
            "same")
          .exit,
      0);
}

// Networks that fail, or do something forbidden.

TEST_F(HostedModel, ExceptionsAreReportedWithTheirLocationAndTraceback) {
  const std::string raises = "raise ValueError('no luck')\n";
  EXPECT_THAT(failure(net("", "        " + raises)),
              AllOf(HasSubstr("ValueError: no luck ("), HasSubstr("-v shows Python's traceback")));
  const Ended shown = train("-v");
  EXPECT_THAT(shown.err, HasSubstr("Traceback (most recent call last):\n  File \"" +
                                   fs::canonical(folder_.path()).string()));
  EXPECT_THAT(
      failure(net("        if x.device.type != 'meta': " + raises)),
      AllOf(HasSubstr("ValueError: no luck ("), HasSubstr("Python's traceback is in log.txt")));
  EXPECT_THAT(file_text(folder_ / "run/log.txt"), HasSubstr("Traceback (most recent call last)"));
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
  // Even though BatchNorm rules out other ways to compute a step, such as two passes.
  EXPECT_THAT(failure(net("        " + raises, "        self.mix = nn.BatchNorm2d(3)\n")),
              HasSubstr("ValueError: no luck ("));
  EXPECT_THAT(failure(net("        raise SystemExit('leaving')\n")),
              HasSubstr("SystemExit: leaving"));
  EXPECT_THAT(
      failure(net("        sys.stdout.close(); sys.stderr.close(); " + raises, "", "import sys\n")),
      HasSubstr("ValueError: no luck ("));
}

TEST_F(DeepHostedModel, InvalidEntriesAreReportedWithAdvice) {
  trust("my_net.py", net() + R"(

def more(num_classes, width_of_all): return make(num_classes)
def none(num_classes): pass
def no_classes(): return make(3)
def lazy(num_classes): return nn.Sequential(nn.Flatten(), nn.LazyLinear(num_classes))
def weightless(num_classes): return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
def ten(num_classes): return make(10)
def large(num_classes): return nn.Sequential(nn.Conv2d(3, num_classes, 64), nn.Flatten())
def imports(num_classes): import no_such_package
number = 3
)");
  const struct {
    const char *entry, *says, *advice;
  } cases[] = {
      {"my_net.py:mak", "my_net.py has no 'mak' [/model/entry]", "did you mean 'make'?"},
      {"my_net:mak", "my_net has no 'mak'", "did you mean 'make'?"},
      {"my_net.py:number", "is of type int, not a function or class", "name the function or class"},
      {"my_net.py:more", "my_net.py:more: missing a required argument: 'width_of_all'",
       "it takes (num_classes, width_of_all); set them by name"},
      {"my_net.py:more +model.arguments.width_of_al=3",
       "missing a required argument: 'width_of_all'", "did you mean 'width_of_all'?"},
      {"my_net.py:no_classes", "got an unexpected keyword argument 'num_classes'",
       "class_argument names the argument that takes the number of classes; null omits this "
       "argument"},
      {"my_net.py:none", "my_net.py:none returned nothing, not a torch.nn.Module",
       "return the network"},
      {"my_net.py:lazy", "the network's '1.weight' has no shape yet", "specify the layer's sizes"},
      {"my_net.py:weightless", "the network has no weights, so there is nothing to train",
       "choose a network with weights"},
      {"my_net.py:ten", "10 logits per sample, but the data needs 3, one per class [/model/",
       "set its last layer's size to the number of classes, which it receives as 'num_classes'"},
      {"my_net.py:large", "Kernel size can't be greater than actual input size",
       "the network's input has the shape (1, 3, 16, 16); for images, the data's image_size"},
      {"my_net.py:imports", "No module named 'no_such_package' (",
       "if it is your own file, put it into the folder of the code or of the recipe; otherwise "},
  };
  for (const auto& [entry, says, advice] : cases) {
    const Ended refused = train("model.entry=" + std::string(entry));
    EXPECT_NE(refused.exit, 0) << entry;
    EXPECT_THAT(refused.err, HasSubstr(says)) << entry;
    EXPECT_THAT(refused.err, HasSubstr(advice)) << entry;
  }
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

TEST_F(HostedModel, MistypedLibraryModelSuggestsTheNearestName) {
  if (!torch_python_has("timm")) GTEST_SKIP() << "that Python has no package 'timm'";
  const Ended refused =
      train("model.entry=timm:create_model +model.arguments.model_name=resnet18x");
  EXPECT_THAT(refused.err, HasSubstr("did you mean 'resnet18'"));
  const Ended sized =
      train("model.entry=timm:create_model +model.arguments.model_name=vit_tiny_patch16_224");
  EXPECT_THAT(sized.err, HasSubstr("Input height (16) doesn't match model (224)"));
  EXPECT_THAT(sized.err, HasSubstr("the network's input has the shape (1, 3, 16, 16)"));
  ASSERT_EQ(here("trust no_such_package").exit, 0);
  EXPECT_THAT(train("model.entry=no_such_package:make").err,
              HasSubstr("this Python has no module 'no_such_package'"));
}

TEST_F(DeepHostedModel, InvalidOutputsAreReported) {
  const auto returning = [&](const std::string& expression) {
    return failure(net("        return " + expression + "\n"));
  };
  EXPECT_THAT(returning("None"), HasSubstr("the network returned nothing"));
  EXPECT_THAT(returning("self.fc(torch.zeros(2, 4, device=x.device))"),
              HasSubstr("returned logits of shape (2, 3) for"));
  EXPECT_THAT(returning("torch.zeros(len(x), 7, device=x.device)"),
              HasSubstr("returned 7 logits per sample, but the data needs 3"));
  EXPECT_THAT(returning("torch.zeros(len(x), 3, device=x.device)"),
              HasSubstr("returned outputs that do not depend on its weights"));
  EXPECT_THAT(returning("torch.zeros(len(x), 3)"),
              HasSubstr("returned outputs that do not depend on its weights"))
      << "code that names a device needs a real step";
}

TEST_F(HostedModel, NonFiniteLossIsReportedWithItsStep) {
  EXPECT_THAT(failure(net("        x = x * float('nan')\n")), HasSubstr("is not finite at step 1"));
}

TEST_F(DeepHostedModel, NetworkMustNotChangeItsInputOrItsWeights) {
  EXPECT_THAT(failure(net("        x.mul_(2)\n")), HasSubstr("changes its input in place"));
  EXPECT_THAT(
      failure(net("        self.fc.weight = nn.Parameter(self.fc.weight.detach().clone())\n")),
      HasSubstr("has replaced its parameter 'fc.weight'"));
  EXPECT_THAT(failure(net("        self.mean = self.mean + 1\n",
                          "        self.register_buffer('mean', torch.zeros(1))\n")),
              HasSubstr("has replaced its buffer 'mean'"));
  EXPECT_THAT(failure(net("        with torch.no_grad(): self.fc.weight.clamp_(-1, 1)\n")),
              HasSubstr("changes its parameters in its forward pass"));
  EXPECT_THAT(failure(net("        self.fc.weight.data.clamp_(-1, 1)\n")),
              ContainsRegex("changes its parameters in its forward pass, with aten::clamp_ "
                            "\\(my_net.py:[0-9]+\\)"));
}

TEST_F(DeepHostedModel, BackwardPassMustNotChangeWeights) {
  const auto hooked = [](const std::string& change) {
    return net(
        "", "        self.fc.weight.register_hook(lambda gradient: (" + change + ", None)[1])\n");
  };
  for (const char* change : {"self.fc.weight.data.mul_(0.5)", "self.fc.weight.detach().mul_(0.5)"})
    EXPECT_THAT(failure(hooked(change)),
                ContainsRegex("changes its parameters in its backward pass, with aten::mul_"
                              ".*\\(my_net.py:[0-9]+\\)"));
  trust("my_net.py", hooked("self.fc.weight.data.abs()"));
  EXPECT_EQ(train("", "reads").exit, 0);
}

TEST_F(DeepHostedModel, RunResumesAfterCodeHasFailedInAStep) {
  trust("my_net.py", net("        fail_once(self, x)\n", "", R"(
import os
import sys
steps = []
def fail_once(network, x):
    if network.training and x.device.type != 'meta' and os.path.exists('fail'):
        steps.append(1)
        if len(steps) == 4: exec(open('fail').read())
)"));
  ASSERT_EQ(train("", "whole").exit, 0);
  const struct {
    const char *does, *says;
  } cases[] = {
      {"raise ValueError('no luck')", "ValueError: no luck"},
      {"raise KeyboardInterrupt", "KeyboardInterrupt"},
      {"sys.exit(0)", "SystemExit: 0"},
      {"os._exit(0)", "the worker exited with code 0 before it had finished"},
  };
  for (const auto& [does, says] : cases) {
    SCOPED_TRACE(does);
    folder_.write("fail", does);
    fs::remove_all(folder_ / "run");
    const Ended failed = train();
    EXPECT_EQ(failed.exit, 1) << failed.err;
    EXPECT_THAT(failed.err, HasSubstr(says));
    EXPECT_THAT(failed.err, HasSubstr("continue with `retort resume run`"));
    fs::remove(folder_ / "fail");
    const Ended resumed = here("resume run");
    EXPECT_EQ(resumed.exit, 0) << resumed.err;
    EXPECT_TRUE(weights("run") == weights("whole"));
  }
}

TEST_F(DeepHostedModel, PrintsThreadsAndForksDoNotDisturbTheRun) {
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
