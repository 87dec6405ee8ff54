// End-to-end tests of optimizer state, gradients and parameters that are divided among ranks
// (memory.shard).

#include <csignal>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/latest_weights.h"
#include "tests/support/ranks_fixture.h"

namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

using ShardedRanks = Ranks;

TEST_F(ShardedRanks, ShardedStateGivesTheSameBits) {
  for (const int ranks : {2, 3}) {
    const std::string number = std::to_string(ranks);
    ASSERT_EQ(train("all-" + number, ranks, "train.ema.decay=0.9").exit, 0);
    const Ended ended =
        train("part-" + number, ranks, "train.ema.decay=0.9 memory.shard=optimizer");
    ASSERT_EQ(ended.exit, 0) << ended.err;
    for (const char* const file : {"model.safetensors", "optimizer.safetensors"}) {
      EXPECT_TRUE(file_text(latest_checkpoint(folder_ / ("part-" + number)) / file) ==
                  file_text(latest_checkpoint(folder_ / ("all-" + number)) / file))
          << file;
    }
  }
}

TEST_F(ShardedRanks, ShardedStateIsResumedInAnyNumber) {
  const std::string divided = "memory.shard=optimizer memory.max_retries=0";
  ASSERT_EQ(train("undivided", 2).exit, 0);
  for (const std::string worker : {"retort-worker", "retort-worker-1"}) {
    const std::string name = "divided-" + worker;
    const Ended killed = train(name, 2, divided, worker + "/step:3:kill");
    EXPECT_EQ(killed.exit, 1) << killed.err;
    EXPECT_THAT(killed.err, HasSubstr("SIGKILL"));
    ASSERT_EQ(retort("resume " + name, folder_.path()).exit, 0);
    EXPECT_TRUE(weights(name) == weights("undivided"));
  }
  for (const std::string ranks : {"1", "3"}) {
    const std::string name = "divided-to-" + ranks;
    EXPECT_EQ(train(name, 2, divided, "retort-worker/step:3:kill").exit, 1);
    const Ended resumed = retort("resume " + name + " --devices " + ranks, folder_.path());
    ASSERT_EQ(resumed.exit, 0) << resumed.err;
    EXPECT_EQ(values(name, "train/loss").size(), 4);
  }
}

TEST_F(ShardedRanks, ShardedGradientsAreReproducibleAndResumedInAnyNumber) {
  const std::string sharded =
      "memory.shard=gradients train.ema.decay=0.9 train.gradient_clip_norm=1 "
      "train.log_gradients_every=2 run.tensorboard=true";
  const std::string once = " memory.max_retries=0";
  ASSERT_EQ(train("plain", 2, "train.ema.decay=0.9 train.gradient_clip_norm=1").exit, 0);
  for (const std::string name : {"sharded", "again"}) {
    const Ended ended = train(name, 2, sharded);
    ASSERT_EQ(ended.exit, 0) << ended.err;
  }
  EXPECT_TRUE(weights("sharded") == weights("again"));
  expect_reordered(values("sharded", "train/loss"), values("plain", "train/loss"));
  EXPECT_EQ(train("killed", 2, sharded + once, "retort-worker-1/step:3:kill").exit, 1);
  ASSERT_EQ(retort("resume killed", folder_.path()).exit, 0);
  EXPECT_TRUE(weights("killed") == weights("sharded"));
  EXPECT_EQ(train("fewer", 2, sharded + once, "retort-worker/step:3:kill").exit, 1);
  const Ended resumed = retort("resume fewer --devices 1", folder_.path());
  ASSERT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_EQ(values("fewer", "train/loss").size(), 4);
}

TEST_F(ShardedRanks, ShardedParametersTrainValidateAndAreResumedInAnyNumber) {
  const std::string plain =
      "model.num_hidden_layers=3 train.ema.decay=0.9 train.gradient_clip_norm=1";
  const std::string sharded =
      plain + " memory.shard=parameters memory.activation_checkpointing=block memory.micro_batch=2";
  const std::string once = " memory.max_retries=0";
  ASSERT_EQ(train("one", 1, plain).exit, 0);
  for (const std::string name : {"sharded", "again"}) {
    const Ended ended = train(name, 2, sharded);
    ASSERT_EQ(ended.exit, 0) << ended.err;
  }
  EXPECT_TRUE(weights("sharded") == weights("again")) << "reproducible bit for bit";
  for (const char* const metric : {"train/loss", "validation/loss"})
    expect_reordered(values("sharded", metric), values("one", metric));
  EXPECT_EQ(values("sharded", "evaluate/top1").size(), values("one", "evaluate/top1").size());
  EXPECT_EQ(train("killed", 2, sharded + once, "retort-worker-1/step:3:kill").exit, 1);
  ASSERT_EQ(retort("resume killed", folder_.path()).exit, 0);
  EXPECT_TRUE(weights("killed") == weights("sharded"));
  for (const std::string ranks : {"1", "3"}) {
    const std::string name = "to-" + ranks;
    EXPECT_EQ(train(name, 2, sharded + once, "retort-worker/step:3:kill").exit, 1);
    const Ended resumed = retort("resume " + name + " --devices " + ranks, folder_.path());
    ASSERT_EQ(resumed.exit, 0) << resumed.err;
    EXPECT_EQ(values(name, "train/loss").size(), 4);
  }
}

TEST_F(ShardedRanks, ShardedParametersNeedWhatIsPlanned) {
  const std::string large =
      "model.num_hidden_layers=6 model.hidden_size=256 model.intermediate_size=1024 "
      "model.num_attention_heads=4 memory.activation_checkpointing=block memory.shard=";
  for (const std::string shard : {"gradients", "parameters"}) {
    const Ended ended = train("large-" + shard, 2, large + shard);
    ASSERT_EQ(ended.exit, 0) << ended.err;
    const fs::path run = folder_ / ("large-" + shard);
    const json plan = json::parse(file_text(run / "nodes/train/plan.json"));
    for (const char* const node : {"nodes/train", "ranks/1/nodes/train"}) {
      const json finished = json::parse(file_text(run / node / "finished.json"));
      EXPECT_LE(finished.at("peak_memory_bytes").get<std::int64_t>(),
                plan.at("needed").get<std::int64_t>())
          << shard << ' ' << node;
    }
  }
}

TEST_F(ShardedRanks, AllSaveShardedStateWhenStopped) {
  Endless run =
      start_endless("stopped", 2, "memory.shard=optimizer train.checkpoint.every.steps=1000000");
  ASSERT_EQ(kill(run.retort, SIGTERM), 0);
  const Ended ended = run.ended.get();
  EXPECT_EQ(ended.exit, 75) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("retort resume stopped"));
  EXPECT_THAT(ended.err, Not(HasSubstr("rank 1")));
  EXPECT_NE(weights("stopped"), "") << "all ranks have saved";
}

TEST_F(ShardedRanks, ShardedStateIsPlannedAndCertified) {
  const std::string recipe =
      " quickstart data.root=photos data.make=null data.image_size=16 model.patch_size=8 "
      "device=cpu device.count=3 ";
  const auto needed = [&](const std::string& more) -> std::int64_t {
    const Ended planned = retort("plan" + recipe + "--json " + more, folder_.path());
    EXPECT_EQ(planned.exit, 0) << planned.err;
    return json::parse(planned.out).at("result").at("plans").at(0).at("needed");
  };
  EXPECT_LT(needed("memory.shard=optimizer"), needed(""));
  EXPECT_LT(needed("memory.shard=gradients"), needed("memory.shard=optimizer"));
  // The best weights, if they are kept, take more memory at the end than the training.
  const std::string blocks = "train.keep=last memory.activation_checkpointing=block memory.shard=";
  EXPECT_LT(needed(blocks + "parameters"), needed(blocks + "gradients"));
  for (const std::string what :
       {"optimizer", "gradients", "parameters memory.activation_checkpointing=block"}) {
    const Ended certified = retort(
        "certify" + recipe + "memory.shard=" + what + " memory.micro_batch=2", folder_.path());
    EXPECT_EQ(certified.exit, 0) << certified.err;
    EXPECT_THAT(certified.out, HasSubstr("3 ranks"));
    EXPECT_THAT(certified.out, HasSubstr("shard " + what.substr(0, what.find(' '))));
  }
  const Ended refused =
      retort("plan" + recipe + "memory.shard=parameters memory.activation_checkpointing=none",
             folder_.path());
  EXPECT_EQ(refused.exit, 78) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("[/memory/shard]"));
  EXPECT_THAT(refused.err, HasSubstr("set activation_checkpointing: block, or shard: gradients"));
  const Ended alone = train("alone-with-all", 1, "memory.shard=optimizer");
  EXPECT_EQ(alone.exit, 0);
  EXPECT_THAT(alone.err, HasSubstr("shard: optimizer has no effect: there is only one rank"));
}

}  // namespace
