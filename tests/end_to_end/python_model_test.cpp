// End-to-end tests of Python networks: what they import, and their options.

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/hosted_model.h"

namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

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

TEST_F(DeepHostedModel, ModulesWithTheSameNameAreRejected) {
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
  // A trusted module can also be the entry itself, not just an import.
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

/// Tests that share one run, which the first test makes. The network imports trusted files and
/// writes the types of its blocks' outputs to the file `seen`; one block is in bf16 and has its own
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

TEST_F(HostedModel, PredictionIsExplainedOnTheTokensOfTheLastBlock) {
  trust("my_net.py", R"(import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, num_classes, width=8):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.blocks = nn.ModuleList(
            [nn.TransformerEncoderLayer(width, 2, 16, dropout=0, batch_first=True) for _ in range(2)])
        self.fc = nn.Linear(width, num_classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.first.expand(len(x), -1, -1), x), dim=1)
        for block in self.blocks:
            x = block(x)
        return self.fc(x[:, 0])


def make(num_classes):
    return Net(num_classes)
)");
  ASSERT_EQ(train("train.epochs=1").exit, 0);
  const Ended predicted = here("predict run photos --explain maps --top 1");
  ASSERT_EQ(predicted.exit, 0) << predicted.err;
  EXPECT_FALSE(fs::is_empty(folder_ / "maps"));
}

TEST_F(DeepHostedModel, FeatureMapsOfVisionTransformersHaveTheShapeOfTheirTokens) {
  if (!torch_python_has("timm")) GTEST_SKIP() << "that Python has no package 'timm'";
  const Ended found = python(
      "import sys; sys.path.insert(0, '" RETORT_SOURCE_DIR "/stages/python')\n" + std::string(R"(
import timm
import torch
from retort_host.blocks import blocks
from retort_host.maps import FeatureMaps

for name, size, shape, depends in [
        ("vit_tiny_patch16_224", (64, 160), (192, 4, 10), True), ("swin_tiny_patch4_window7_224", (224, 224), (768, 7, 7), True),
        ("beit_base_patch16_224", (224, 224), (768, 14, 14), True), ("convnext_atto", (64, 64), (320, 2, 2), True),
        ("pvt_v2_b0", (64, 64), (256, 2, 2), True), ("nest_tiny", (224, 224), None, None),
        ("tnt_s_legacy_patch16_224", (224, 224), None, None)]:
    options = {"img_size": size} if name.startswith("vit") else {}
    network = timm.create_model(name, num_classes=3, **options).eval()
    image = torch.rand(1, 3, *size, requires_grad=True)
    expected = network(image)
    with FeatureMaps(torch, network, blocks(torch, network), image.shape) as found:
        logits = network(image)
    assert torch.equal(logits, expected), name
    assert (found.maps is None) == (shape is None), name
    if shape:
        assert found.maps.shape == (1, *shape), (name, found.maps.shape)
        assert torch.autograd.grad(logits[0, 0], found.maps)[0].abs().sum() > 0, name
)"));
  EXPECT_EQ(found.exit, 0) << found.err;
}

TEST_F(HostedModelRun, PredictionIsExplainedOnTheLastConvolution) {
  const Ended predicted = here("predict run photos --explain maps --top 1");
  ASSERT_EQ(predicted.exit, 0) << predicted.err;
  EXPECT_FALSE(fs::is_empty(folder_ / "maps"));
}

}  // namespace
