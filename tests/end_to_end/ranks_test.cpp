// End-to-end tests of training with several ranks (device.count).

#include <cmath>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/ranks_fixture.h"

namespace {

using testing::HasSubstr;

TEST_F(Ranks, TrainLikeASingleRank) {
  ASSERT_EQ(train("one", 1).exit, 0);
  for (const int ranks : {2, 3}) {
    const std::string name = "of-" + std::to_string(ranks);
    const Ended ended = train(name, ranks);
    ASSERT_EQ(ended.exit, 0) << ended.err;
    for (const char* const metric : {"train/loss", "validation/loss"}) {
      SCOPED_TRACE(name + ' ' + metric);
      expect_reordered(values(name, metric), values("one", metric));
    }
    EXPECT_EQ(values(name, "evaluate/top1").size(), values("one", "evaluate/top1").size());
    ASSERT_EQ(train(name + "-again", ranks).exit, 0);
    EXPECT_TRUE(weights(name + "-again") == weights(name)) << "reproducible bit for bit";
  }
}

constexpr const char* kPairs = R"(schema: 1
name: pairs
device: cpu
defaults: [{data: image_folder}, {memory: auto}, _self_]
data: {root: photos, image_size: 32, caption: "a photo of a {name}", loader: {workers: 0}, split: {train: 0.6, validation: 0.2, test: 0.2}}
model:
  kind: model.clip
  projection_dim: 16
  class_head: none
  image: {patch_size: 16, hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 64}
  text: {hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 64}
train: {kind: train.contrastive, epochs: 2, batch_size: 7, monitor: loss, log_every: 1}
evaluate: {kind: evaluate.zero_shot}
)";

TEST_F(Ranks, PairsAreContrastedWithTheWholeBatch) {
  folder_.write("pairs.yaml", kPairs);
  for (const std::string loss : {"softmax", "sigmoid model.logit_bias=-10"}) {
    std::vector<double> one;
    for (const int ranks : {1, 2, 3}) {
      for (const std::string more : {"", " memory.micro_batch=2 memory.two_pass=on"}) {
        const std::string name =
            "pairs-" + loss.substr(0, 7) + std::to_string(ranks) + (more.empty() ? "" : "-cut");
        const Ended ended =
            retort("run pairs.yaml run.dir=" + name + " device.count=" + std::to_string(ranks) +
                       more + " train.loss.function=" + loss,
                   folder_.path());
        ASSERT_EQ(ended.exit, 0) << ended.err;
        if (one.empty()) one = values(name, "train/loss");
        SCOPED_TRACE(name);
        expect_reordered(values(name, "train/loss"), one);
      }
    }
  }
}

/// BatchNorm adds this to the variance before it divides by its square root.
constexpr double kBatchNormEpsilon = 1e-5;

constexpr const char* kNormed =
    " classify model=se_resnext50_32x4d model.weights=null model.layers=[1,1,1,1] "
    "model.cardinality=2 data.root=photos data.image_size=32 data.loader.workers=0 device=cpu ";

TEST_F(Ranks, NormalizeOverTheWholeBatch) {
  const auto train_normed = [&](const std::string& name, int ranks, const std::string& more = "") {
    const Ended ended = retort(
        "run" + (kNormed +
                 ("epochs=2 batch_size=5 train.optimizer.kind=sgd train.optimizer.momentum=0.9 "
                  "train.optimizer.learning_rate=0.01 train.log_every=1 run.dir=" +
                  name + " device.count=" + std::to_string(ranks) + ' ' + more)),
        folder_.path());
    ASSERT_EQ(ended.exit, 0) << ended.err;
  };
  train_normed("normed-1", 1);
  const auto one = values("normed-1", "train/loss");
  ASSERT_GT(one.size(), 4);
  for (const int ranks : {2, 3}) {
    for (const std::string more : {"", "memory.activation_checkpointing=block"}) {
      const std::string name = "normed-" + std::to_string(ranks) + (more.empty() ? "" : "-again");
      train_normed(name, ranks, more);
      const auto all = values(name, "train/loss");
      ASSERT_EQ(all.size(), one.size());
      // Later losses diverge, since each step amplifies float32 rounding. A certificate compares
      // all gradients in float64.
      EXPECT_NEAR(all[0], one[0], kFloatBits / kBatchNormEpsilon * std::abs(one[0])) << name;
    }
    const std::string name = "normed-" + std::to_string(ranks);
    train_normed(name + "-repeated", ranks);
    EXPECT_TRUE(weights(name + "-repeated") == weights(name)) << "reproducible bit for bit";
  }
}

TEST_F(Ranks, BatchNormWithAccumulationIsRejected) {
  const Ended ended =
      retort("plan" + (kNormed + std::string("device.count=2 batch_size=4 "
                                             "train.gradient_accumulation_steps=2")),
             folder_.path());
  EXPECT_EQ(ended.exit, 78) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("device.count: 2 divides every batch"));
  EXPECT_THAT(ended.err, HasSubstr("gradient_accumulation_steps"));
  EXPECT_THAT(ended.err, HasSubstr("[/device/count]"));
}

TEST_F(Ranks, CertifyComparesBatchNormWithASingleRank) {
  for (const char* const ranks : {"2", "7"}) {
    const Ended ended =
        retort("certify" + (kNormed + std::string("device.count=") + ranks), folder_.path());
    EXPECT_EQ(ended.exit, 0) << ended.err << ended.out;
    EXPECT_THAT(ended.out, HasSubstr(std::string(ranks) + " ranks"));
  }
}

}  // namespace
