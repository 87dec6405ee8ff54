// End-to-end tests of Python networks that embed images and texts, trained with train.contrastive.

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/latest_weights.h"
#include "tests/support/program.h"
#include "tests/support/shared_folder.h"
#include "tests/support/small_clip.h"
#include "tests/support/torch_python.h"

namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

/// A network of two small towers: code for its constructor, for the start of its methods, and for
/// further methods.
struct Towers {
  std::string parts = {}, of_image = {}, of_text = {}, methods = {};
  std::string scale = "nn.Parameter(torch.tensor(2.6592))";
  int tokens = 514;
};

std::string net(const Towers& towers = {}) {
  return R"(import torch
from torch import nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.mlp, self.drop = nn.LayerNorm(width), nn.Linear(width, width), nn.Dropout(0.1)

    def forward(self, x):
        return x + self.drop(torch.tanh(self.mlp(self.norm(x))))


class Clip(nn.Module):
    def __init__(self, context=32):
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, 4)
        self.image_blocks = nn.ModuleList([Block(8) for _ in range(2)])
        self.words = nn.Embedding()" +
         std::to_string(towers.tokens) + R"(, 8)
        self.places = nn.Parameter(0.1 * torch.randn(context, 8))
        self.text_blocks = nn.ModuleList([Block(8) for _ in range(2)])
        self.of_images, self.of_texts = nn.Linear(8, 6), nn.Linear(8, 6)
        self.logit_scale = )" +
         towers.scale + "\n" + towers.parts + R"(
    def encode_image(self, image):
)" + towers.of_image +
         R"(        x = self.patches(image).flatten(2).transpose(1, 2)
        for block in self.image_blocks:
            x = block(x)
        return self.of_images(x.mean(1))

    def encode_text(self, tokens):
)" + towers.of_text +
         R"(        x = self.words(tokens) + self.places
        for block in self.text_blocks:
            x = block(x)
        return self.of_texts(x.mean(1))
)" + towers.methods;
}

constexpr const char* kRecipe = R"(schema: 1
name: towers
seed: 42
device: cpu
defaults: [{data: stanford_cars}, {memory: auto}, _self_]
data: {root: cars, image_size: 16, validation: 0.3, loader: {workers: 0}}
model: {kind: model.python, entry: "my_clip.py:Clip", towers: {tokenizer: {context_length: 32, too_long: cut}}}
train:
  kind: train.contrastive
  epochs: 2
  batch_size: 8
  optimizer: {learning_rate: 0.01}
  monitor: recall_at_1
  checkpoint: {every: {steps: 1}}
evaluate: {kind: evaluate.zero_shot}
retrieval: {kind: evaluate.retrieval}
)";

class HostedTowers : public testing::Test {
 protected:
  void SetUp() override {
    if (!python_) GTEST_SKIP() << kNoTorchPython;
    if (folder_.is_made()) return;
    const Ended made = retort(
        "data make stanford_cars --out cars --classes 3 --per-class 20 --size 16 --seed 5 -q",
        folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
    folder_.write("towers.yaml", kRecipe);
    folder_.keep();
  }

  /// Runs `retort` in this folder, with its own trusted files and cache.
  Ended here(const std::string& arguments, const std::string& variables = "") const {
    return run_shell("export RETORT_CACHE=$PWD/cache XDG_CONFIG_HOME=$PWD/config; " + variables +
                         ' ' + RETORT_BINARY_DIR "/bin/retort " + arguments,
                     folder_.path());
  }
  void trust(const std::string& text) const {
    folder_.write("my_clip.py", text);
    ASSERT_EQ(here("trust my_clip.py").exit, 0);
  }
  Ended train(const std::string& more = "", const std::string& name = "run",
              const std::string& variables = "") const {
    return here("run towers.yaml run.dir=" + name + " python=" + python_->string() + ' ' + more,
                variables);
  }
  /// The errors of a network that is rejected before the run, or fails.
  std::string refusal(const std::string& code, const std::string& more = "") const {
    trust(code);
    fs::remove_all(folder_ / "run");
    const Ended run = train(more);
    EXPECT_NE(run.exit, 0) << run.err;
    EXPECT_NE(run.exit, 70) << run.err;
    EXPECT_FALSE(fs::exists(folder_ / "run/nodes/train/checkpoints/latest"));
    return run.err;
  }
  std::string weights(const std::string& name) const { return latest_weights(folder_ / name); }
  fs::path last(const std::string& name) const {
    const fs::path checkpoints = folder_ / (name + "/nodes/train/checkpoints");
    std::string latest = file_text(checkpoints / "latest");
    if (!latest.empty()) latest.pop_back();
    return checkpoints / latest / "model.safetensors";
  }
  json metrics(const std::string& node) const {
    return json::parse(file_text(folder_ / (node + "/metrics.json")));
  }

  SharedFolder folder_;
  const std::optional<fs::path> python_ = torch_python();
};

/// Every command imports torch, which takes seconds.
class DeepHostedTowers : public HostedTowers {};

TEST_F(HostedTowers, NetworkCanBeTrainedEvaluatedAndExportedAndCanPredict) {
  trust(net());
  const Ended run = train();
  ASSERT_EQ(run.exit, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("every byte of a caption is one token, out of 514"));
  const json classes = metrics("run/nodes/evaluate"), pairs = metrics("run/nodes/retrieval");
  EXPECT_EQ(classes["per_class"].size(), 3u);
  EXPECT_LE(pairs["image_to_text"]["recall_at_1"], pairs["image_to_text"]["recall_at_5"]);
  const Ended exported = here("export run --out out");
  EXPECT_EQ(exported.exit, 0) << exported.err;
  const Ended asked =
      here(R"(predict run cars/cars_test/00001.jpg --labels "a red car" "a blue car" --json)");
  ASSERT_EQ(asked.exit, 0) << asked.err;
  EXPECT_EQ(json::parse(asked.out.substr(0, asked.out.find('\n'))).at("classes").size(), 2u);
  EXPECT_EQ(here("predict run cars/cars_test/00001.jpg").exit, 0);
}

TEST_F(HostedTowers, ResumedTrainingIsBitIdentical) {
  trust(net({.of_image = "        image = F.dropout(image, 0.1, self.training)\n"}));
  ASSERT_EQ(train("", "whole").exit, 0);
  ASSERT_NE(train("memory.max_retries=0", "killed", "RETORT_FAULT=retort-worker/step:3:kill").exit,
            0);
  const Ended resumed = here("resume killed");
  ASSERT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_FALSE(weights("whole").empty());
  EXPECT_TRUE(weights("whole") == weights("killed"));
  EXPECT_EQ(metrics("killed/nodes/evaluate"), metrics("whole/nodes/evaluate"));
  EXPECT_EQ(metrics("killed/nodes/retrieval"), metrics("whole/nodes/retrieval"));
}

TEST_F(HostedTowers, MicroBatchesTrainLikeTheWholeBatch) {
  trust(net());
  const std::string sgd = "train.optimizer.kind=sgd ";
  ASSERT_EQ(train(sgd, "whole").exit, 0);
  const Ended parts = train(sgd + "memory.two_pass=on memory.micro_batch=3", "parts");
  ASSERT_EQ(parts.exit, 0) << parts.err;
  EXPECT_FALSE(weights("parts") == weights("whole"));
  EXPECT_LT(most_different(last("parts"), last("whole")), 1e-6);
  const Ended recomputed = train(sgd + "memory.activation_checkpointing=block", "recomputed");
  ASSERT_EQ(recomputed.exit, 0) << recomputed.err;
  EXPECT_TRUE(weights("recomputed") == weights("whole"));
}

TEST_F(DeepHostedTowers, MicroBatchesAreCertifiedForANetworkThatIndexesWithABuffer) {
  trust(net({.parts = "        self.register_buffer('order', torch.arange(32), persistent=False)\n",
             .of_text = "        tokens = tokens[:, self.order]\n"}));
  const Ended certified =
      here("certify towers.yaml memory.two_pass=on memory.micro_batch=3 --json python=" +
           python_->string());
  EXPECT_EQ(certified.exit, 0) << certified.err << certified.out;
  EXPECT_THAT(certified.out, HasSubstr("with dropout"));
}

TEST_F(DeepHostedTowers, AdaptersOfBothTowersCanBeTrained) {
  trust(net());
  const Ended run =
      train("'model.adapters={targets: [mlp], rank: 2, modules_to_save: [of_texts]}'");
  ASSERT_EQ(run.exit, 0) << run.err;
  const Ended unused = train("'model.adapters={targets: [unused], rank: 2}'", "unused");
  EXPECT_THAT(unused.err, HasSubstr("no layer is called 'unused'"));
  trust(net({.parts = "        self.unused = nn.Linear(8, 8)\n"}));
  const Ended refused = train("'model.adapters={targets: [unused], rank: 2}'", "refused");
  EXPECT_EQ(refused.exit, 78) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("the adapter of 'unused' has no effect"));
}

TEST_F(DeepHostedTowers, LogitScaleIsTrainedWithinItsLimit) {
  trust(net());
  const auto scale_of = [&](const std::string& name) {
    const Ended read = run_shell(
        python_->string() + " -c \"from safetensors import safe_open; print(float(safe_open('" +
            last(name).string() + "', 'pt').get_tensor('logit_scale')))\"",
        folder_.path());
    EXPECT_EQ(read.exit, 0) << read.err;
    return std::stod(read.out);
  };
  ASSERT_EQ(train("", "free").exit, 0);
  EXPECT_NE(scale_of("free"), 2.6592);
  ASSERT_EQ(train("model.towers.maximum_logit_scale=2.5", "limited").exit, 0);
  EXPECT_LE(scale_of("limited"), 2.5);
  ASSERT_EQ(train("train.learning_rate_factors.logit_scale=0", "fixed").exit, 0);
  EXPECT_NEAR(scale_of("fixed"), 2.6592, 1e-6);
}

TEST_F(HostedTowers, SigmoidLossNeedsALogitBias) {
  trust(net({.parts = "        self.bias = nn.Parameter(torch.tensor(-10.0))\n"}));
  const std::string sigmoid = "train.loss.function=sigmoid model.towers.logit_bias=";
  const Ended run = train(sigmoid + "bias");
  EXPECT_EQ(run.exit, 0) << run.err;
  const Ended refused = train(sigmoid + "offset", "refused");
  EXPECT_EQ(refused.exit, 78) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("has no parameter 'offset'"));
}

TEST_F(DeepHostedTowers, LearningRateOfATowerIsSetByParameterNames) {
  trust(net());
  const Ended factor = train("train.learning_rate_factors.image=0");
  EXPECT_EQ(factor.exit, 78) << factor.err;
  EXPECT_THAT(factor.err, HasSubstr("set the part's learning rate in parameter_groups"));
  const Ended run = train(
      "'train.parameter_groups=[{match: [patches, image_blocks.**, of_images], frozen: true}]'");
  EXPECT_EQ(run.exit, 0) << run.err;
}

TEST_F(DeepHostedTowers, MethodsAndParameterCanHaveOtherNames) {
  const std::string methods = R"(
    def images_of(self, image):
        return {"image_embeddings": self.encode_image(image)}

    def texts_of(self, tokens):
        return {"text_embeddings": self.encode_text(tokens), "more": tokens}
)";
  trust(net({.parts = "        self.head = nn.Module()\n"
                      "        self.head.log_factor = nn.Parameter(torch.ones(1))\n",
             .methods = methods,
             .scale = "None"}));
  const Ended run = train(
      "'model.towers={image: images_of, text: texts_of, logit_scale: head.log_factor}' "
      "model.towers.tokenizer.context_length=32 model.towers.tokenizer.too_long=cut");
  EXPECT_EQ(run.exit, 0) << run.err;
}

TEST_F(DeepHostedTowers, TextsArePaddedToContextLengthOrToTheLongest) {
  const std::string prints =
      "        print(tuple(tokens.shape)[1:], file=open('seen', 'a')) if not tokens.is_meta else "
      "0\n";
  trust(net({.of_text = prints}));
  ASSERT_EQ(train("train.epochs=1").exit, 0);
  EXPECT_THAT(file_text(folder_ / "seen"), Not(HasSubstr("(31,)")));
  EXPECT_THAT(file_text(folder_ / "seen"), HasSubstr("(32,)"));
  const Ended shorter = train(
      "train.epochs=1 model.towers.tokenizer.padding=longest "
      "model.towers.tokenizer.context_length=200",
      "shorter");
  EXPECT_THAT(shorter.err, HasSubstr("it received int64 tokens of shape"));
}

// Rejected networks and options.

TEST_F(HostedTowers, NetworkWithoutTowersIsRejectedBeforePythonStarts) {
  trust("open('ran', 'w')\n");
  const Ended run = train("model.towers=null");
  EXPECT_EQ(run.exit, 78) << run.err;
  EXPECT_THAT(run.err, HasSubstr("the model does not take captions as input"));
  EXPECT_THAT(run.err, HasSubstr("model.towers={image: encode_image, text: encode_text}"));
  const Ended monitored = train("train.monitor=accuracy");
  EXPECT_EQ(monitored.exit, 78) << monitored.err;
  EXPECT_THAT(monitored.err, HasSubstr("a Python network has none"));
  EXPECT_FALSE(fs::exists(folder_ / "ran"));
}

TEST_F(DeepHostedTowers, MismatchedTokenizerIsRejected) {
  const std::string fewer = refusal(net({.tokens = 100}));
  EXPECT_THAT(fewer, HasSubstr("[/model/towers/tokenizer/merges]"));
  EXPECT_THAT(fewer, HasSubstr("embeddings for 100 tokens"));
  EXPECT_THAT(fewer, HasSubstr("build the network for 514 tokens"));
  EXPECT_THAT(refusal(net({.of_text = "        tokens = tokens.to(torch.int32).view(-1, 32)\n",
                           .tokens = 100})),
              HasSubstr("embeddings for 100 tokens"));
  const std::string more = refusal(net({.tokens = 49408}));
  EXPECT_THAT(more, HasSubstr("embeddings for 49408 tokens, but the tokenizer without merges"));
  EXPECT_THAT(more, HasSubstr("name the merges"));
  EXPECT_THAT(refusal(net(), "model.towers.tokenizer.context_length=20"),
              AllOf(HasSubstr("[/model/towers/text]"),
                    HasSubstr("it received int64 tokens of shape (1, 20)"),
                    HasSubstr("context_length, padding and merges must match the network")));
}

TEST_F(DeepHostedTowers, MissingMethodsAndParametersAreNamed) {
  const std::string image = refusal(net(), "+model.towers.image=encode_photo");
  EXPECT_THAT(image, HasSubstr("the network (Clip) has no method 'encode_photo'"));
  EXPECT_THAT(image, HasSubstr("[/model/towers/image]"));
  EXPECT_THAT(refusal(net(), "+model.towers.text=places"),
              HasSubstr("the network (Clip) has no method 'places'"));
  const auto scale = [&](const std::string& code) { return refusal(net({.scale = code})); };
  EXPECT_THAT(scale("None"), HasSubstr("has no parameter 'logit_scale'"));
  EXPECT_THAT(scale("2.6592"), HasSubstr("'logit_scale' of the network (Clip) is of type float"));
  EXPECT_THAT(scale("torch.tensor(2.6592)"), HasSubstr("is a tensor that is not a parameter"));
  EXPECT_THAT(scale("nn.Parameter(torch.ones(3))"), HasSubstr("is a parameter of shape (3,)"));
  EXPECT_THAT(scale("nn.Parameter(torch.tensor(float('nan')))"), HasSubstr("starts at nan"));
  EXPECT_THAT(scale("nn.Parameter(torch.tensor(14.3))"), HasSubstr("starts at 14.3"));
}

TEST_F(DeepHostedTowers, WrongEmbeddingsAreNamed) {
  const auto images = [&](const std::string& expression) {
    return refusal(net({.of_image = "        return " + expression + "\n"}));
  };
  EXPECT_THAT(images("None"), HasSubstr("the image tower returned NoneType"));
  EXPECT_THAT(images("{'features': image}"), HasSubstr("returned dict with 'features'"));
  EXPECT_THAT(images("image.mean(3)"), HasSubstr("returned embeddings of shape (8, 3, 16) for"));
  EXPECT_THAT(images("self.of_images(image[1:, 0, 0, :8])"),
              HasSubstr("embeddings of shape (7, 6) for 8"));
  EXPECT_THAT(images("image[:, 0, 0, :6].long()"), HasSubstr("embeddings of type Long"));
  EXPECT_THAT(images("torch.zeros(len(image), 6)"),
              HasSubstr("returned 'image_embeddings' on cpu"));
  EXPECT_THAT(
      images("torch.cat([self.patches(image).mean((2, 3))], 1)"),
      HasSubstr(
          "'encode_text' returned embeddings of width 6, but embeddings of images have width 8"));
  EXPECT_THAT(images("self.patches(image).mean((2, 3))[:, :6] * float('nan')"),
              HasSubstr("is not finite at step 1"));
}

TEST_F(HostedTowers, ErrorNamesTheLayerThatPreventsMicroBatches) {
  const std::string cut = "memory.two_pass=on memory.micro_batch=4";
  const std::string drawing = refusal(
      net({.of_text = "        self.training and torch.rand(1, device=tokens.device)\n"}), cut);
  EXPECT_THAT(drawing, HasSubstr("two_pass would encode a batch in parts, but the network draws "
                                 "random numbers on its own: aten::rand"));
  EXPECT_THAT(drawing, HasSubstr("(my_clip.py:"));
  EXPECT_THAT(refusal(net({.parts = "        self.norm = nn.BatchNorm2d(3)\n",
                           .of_image = "        image = self.norm(image)\n"}),
                      cut),
              HasSubstr("the network's layer 'norm' (BatchNorm2d) mixes the samples of a batch"));
}

TEST_F(HostedTowers, OtherTrainingAndEvaluationKindsAreRejected) {
  trust(net());
  const Ended trained = train("train.kind=train.supervised");
  EXPECT_NE(trained.exit, 70) << trained.err;
  const Ended evaluated = train("evaluate.kind=evaluate.classification");
  EXPECT_EQ(evaluated.exit, 78) << evaluated.err;
  EXPECT_THAT(evaluated.err, HasSubstr("returns embeddings, but this evaluation needs logits"));
}

}  // namespace
