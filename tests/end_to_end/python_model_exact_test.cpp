// End-to-end tests of Python networks that draw random numbers on their own, and of layers that mix
// the samples of a batch.

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/hosted_model.h"

namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

using ExactHostedModel = HostedModel;

TEST_F(ExactHostedModel, NetworkRandomNumbersAreDetectedAndRepeatedInRecomputedBlocks) {
  trust("my_net.py", net("        if self.training: x = x + 0.1 * torch.rand_like(x)\n"));
  const Ended kept = train("memory.activation_checkpointing=none", "kept");
  ASSERT_EQ(kept.exit, 0) << kept.err;
  EXPECT_THAT(kept.err, HasSubstr("the network draws random numbers on its own"));
  EXPECT_THAT(kept.err, HasSubstr("(my_net.py:"));
  const Ended again = train("memory.activation_checkpointing=block", "recomputed");
  ASSERT_EQ(again.exit, 0) << again.err;
  EXPECT_FALSE(weights("kept").empty());
  EXPECT_TRUE(weights("kept") == weights("recomputed"));
}

TEST_F(DeepHostedModel, NetworkRandomNumbersAreTheSameAfterResuming) {
  trust("my_net.py", net("        if self.training: x = x + 0.1 * torch.rand_like(x)\n"));
  ASSERT_EQ(train("", "whole").exit, 0);
  const Ended killed =
      train("memory.max_retries=0", "run", "RETORT_FAULT=retort-worker/step:4:kill");
  ASSERT_NE(killed.exit, 0);
  const Ended resumed = here("resume run");
  ASSERT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_TRUE(weights("whole") == weights("run"));
}

TEST_F(ExactHostedModel, NetworkRandomNumbersRuleOutMicroBatches) {
  const std::string parts = "train.epochs=1 memory.micro_batch=4";
  trust("my_net.py", net("        x = F.dropout2d(x, 0.1, self.training)\n"));
  const Ended drawing = train(parts);
  EXPECT_EQ(drawing.exit, 78) << drawing.err;
  EXPECT_THAT(drawing.err, HasSubstr("the network draws random numbers on its own: aten::"));
  trust("my_net.py", net("        x = F.dropout2d(x, 0.0, self.training)\n"));
  const Ended still = train(parts);
  EXPECT_EQ(still.exit, 0) << still.err;
}

TEST_F(ExactHostedModel, FunctionalDropoutIsTheSameInRecomputedBlocksAndAfterAResume) {
  const auto attending = [](std::string code) {
    const std::string old = "self.drop(F.gelu(self.norm(self.conv(x))))";
    return code.replace(
        code.find(old), old.size(),
        "F.dropout(self.mixed(F.gelu(self.norm(self.conv(x)))), 0.2, self.training)");
  };
  trust("my_net.py", attending(net("", "", R"(
def mixed(self, x):
    rows = x.flatten(2).transpose(1, 2)
    rows = F.scaled_dot_product_attention(rows, rows, rows, dropout_p=0.1 if self.training else 0)
    return rows.transpose(1, 2).view_as(x)
nn.Module.mixed = mixed
)")));
  const Ended kept = train("memory.activation_checkpointing=none", "kept");
  ASSERT_EQ(kept.exit, 0) << kept.err;
  EXPECT_THAT(kept.err, Not(HasSubstr("draws random numbers on its own")));
  const Ended killed = train("memory.activation_checkpointing=block memory.max_retries=0", "run",
                             "RETORT_FAULT=retort-worker/step:4:kill");
  ASSERT_NE(killed.exit, 0);
  const Ended resumed = here("resume run");
  ASSERT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_FALSE(weights("kept").empty());
  EXPECT_TRUE(weights("kept") == weights("run"));
}

TEST_F(ExactHostedModel, RandomNumbersInEvaluationAreRejected) {
  const std::string error = failure(net("        x = F.dropout(x, 0.1)\n"));
  EXPECT_THAT(error, HasSubstr("the network draws random numbers in evaluation"));
}

TEST_F(ExactHostedModel, RandomNumbersFromPythonAreRejectedBeforeTheRun) {
  const std::string error =
      failure(net("        x = x * random.random()\n", "", "import random\n"));
  EXPECT_THAT(error, HasSubstr("draws random numbers with Python or numpy"));
  EXPECT_FALSE(fs::exists(folder_ / "run/nodes/train/checkpoints/latest"));
}

/// The network with BatchNorm in its blocks, and BatchNorm1d before its head.
std::string normed_net(const std::string& norm = "nn.BatchNorm2d(width)",
                       const std::string& before = "") {
  std::string code = HostedModel::net("", "        self.last = nn.BatchNorm1d(width)\n", before);
  const auto replace = [&](const std::string& old, const std::string& with) {
    code.replace(code.find(old), old.size(), with);
  };
  replace("nn.GroupNorm(1, width)", norm);
  replace("self.fc(x.mean((2, 3)))", "self.fc(self.last(x.mean((2, 3))))");
  return code;
}

TEST_F(ExactHostedModel, RanksNormalizeOverTheWholeBatch) {
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

TEST_F(DeepHostedModel, RanksSynchronizeTimmNormalizationLayers) {
  if (!torch_python_has("timm")) GTEST_SKIP() << "this Python has no package 'timm'";
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

}  // namespace
