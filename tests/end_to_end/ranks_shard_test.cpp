// End-to-end tests of optimizer state, gradients and parameters that are divided among ranks
// (memory.shard).

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>

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

TEST_F(ShardedRanks, ShardedStateCanBeResumedOnAnyNumberOfRanks) {
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

TEST_F(ShardedRanks, ShardedGradientsAreReproducibleAndResumeOnAnyNumberOfRanks) {
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

TEST_F(ShardedRanks, ShardedParametersTrainValidateAndResumeOnAnyNumberOfRanks) {
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

TEST_F(ShardedRanks, NeedThePlannedMemory) {
  const std::string large =
      "model.num_hidden_layers=6 model.hidden_size=256 model.intermediate_size=1024 "
      "model.num_attention_heads=4 memory.activation_checkpointing=block memory.shard=";
  std::map<std::string, std::int64_t> planned;
  for (const std::string shard : {"optimizer", "gradients", "parameters"}) {
    const Ended ended = train("large-" + shard, 2, large + shard);
    ASSERT_EQ(ended.exit, 0) << ended.err;
    const fs::path run = folder_ / ("large-" + shard);
    const json plan = json::parse(file_text(run / "nodes/train/plan.json"));
    planned[shard] = plan.at("live");
    std::int64_t most = 0;
    for (const char* const node : {"nodes/train", "ranks/1/nodes/train"}) {
      const json finished = json::parse(file_text(run / node / "finished.json"));
      const std::int64_t counted = finished.at("peak_memory_bytes");
      EXPECT_LE(counted, plan.at("needed").get<std::int64_t>()) << shard << ' ' << node;
      most = std::max(most, counted);
    }
    const auto live = static_cast<double>(planned[shard]);
    EXPECT_NEAR(static_cast<double>(most), live, 0.03 * live) << shard;
  }
  EXPECT_LT(planned["gradients"], planned["optimizer"]);
  EXPECT_LT(planned["parameters"], planned["gradients"]);
}

TEST_F(ShardedRanks, NoRankEverHoldsAllParameters) {
  const std::string large =
      "model.num_hidden_layers=12 model.hidden_size=256 model.intermediate_size=1024 "
      "model.num_attention_heads=4 memory.activation_checkpointing=block memory.shard=parameters "
      "train.optimizer.kind=sgd train.schedule.kind=constant memory.max_retries=0";
  for (const std::string name : {"of-four", "of-four-resumed"}) {
    const bool is_resumed = name != "of-four";
    const Ended ended = train(name, 4, large, is_resumed ? "retort-worker-2/step:3:kill" : "");
    EXPECT_EQ(ended.exit, is_resumed ? 1 : 0) << ended.err;
    if (is_resumed) {
      const Ended resumed = retort("resume " + name, folder_.path());
      ASSERT_EQ(resumed.exit, 0) << resumed.err;
    }
    const auto all = static_cast<std::int64_t>(weights(name).size());
    EXPECT_GT(all, 30 << 20);
    for (const std::string node : {"", "ranks/1/", "ranks/2/", "ranks/3/"}) {
      const json finished =
          json::parse(file_text(folder_ / name / (node + "nodes/train/finished.json")));
      EXPECT_LT(finished.at("peak_memory_bytes").get<std::int64_t>(), all * 3 / 4) << name << node;
    }
  }
  EXPECT_TRUE(weights("of-four") == weights("of-four-resumed"));
}

TEST_F(ShardedRanks, EvaluateTheSameWeightsAsOneProcess) {
  const std::string sharded =
      "model.num_hidden_layers=3 train.ema.decay=0.9 memory.shard=parameters "
      "memory.activation_checkpointing=block";
  ASSERT_EQ(train("evaluated", 2, sharded).exit, 0);
  const Ended again = retort("evaluate evaluated run.dir=evaluated-again", folder_.path());
  ASSERT_EQ(again.exit, 0) << again.err;
  EXPECT_EQ(values("evaluated", "evaluate/top1"), values("evaluated-again", "evaluate/top1"));
  EXPECT_EQ(values("evaluated", "evaluate/loss"), values("evaluated-again", "evaluate/loss"));
  const Ended exported = retort("export evaluated --out exported", folder_.path());
  EXPECT_EQ(exported.exit, 0) << exported.err;
}

using DeepShardedRanks = Ranks;

TEST_F(DeepShardedRanks, ParametersAreRecoveredWhenOneRankRunsOutOfMemory) {
  const std::string sharded =
      "model.num_hidden_layers=3 memory.shard=parameters memory.activation_checkpointing=block";
  ASSERT_EQ(train("enough", 2, sharded).exit, 0);
  int recovered = 0;
  for (const std::string worker : {"retort-worker", "retort-worker-1"}) {
    for (int block = 120; block < 2000; block += 145) {
      const std::string name = worker + "-short-" + std::to_string(block);
      const Ended ended =
          train(name, 2, sharded, worker + "/alloc:" + std::to_string(block) + ":fail");
      if (ended.exit == 1) {  // outside a step
        EXPECT_THAT(ended.err, HasSubstr("retort resume")) << name;
        const Ended resumed = retort("resume " + name, folder_.path());
        EXPECT_EQ(resumed.exit, 0) << name << resumed.err;
      } else {
        ASSERT_EQ(ended.exit, 0) << name << ended.err;
        recovered += ended.err.find("recovered once") != std::string::npos;
      }
      EXPECT_EQ(values(name, "train/loss").size(), 4) << name;
      EXPECT_TRUE(weights(name) == weights("enough")) << name << ": the step is repeated exactly";
    }
  }
  EXPECT_GT(recovered, 6);
}

/// Each process is killed at sampled points: steps, events and calls that write files.
TEST_F(DeepShardedRanks, ParametersSurviveAKillAtAnyPoint) {
  const std::string sharded =
      "model.num_hidden_layers=3 train.ema.decay=0.9 memory.shard=parameters "
      "memory.activation_checkpointing=block memory.max_retries=0";
  ASSERT_EQ(train("unkilled", 2, sharded).exit, 0);
  int number = 0, killed = 0;
  for (const std::string process : {"retort", "retort-worker", "retort-worker-1"}) {
    for (int point = 1; point < 400; point += process == "retort-worker-1" ? 7 : 37) {
      const std::string where = process + "/any:" + std::to_string(point) + ":kill",
                        name = "killed-" + std::to_string(++number);
      const Ended ended = train(name, 2, sharded, where);
      if (ended.exit == 0) break;  // the run has fewer points
      ++killed;
      if (!fs::exists(folder_ / name / "recipe.resolved.json")) continue;  // before it began
      const int ranks = number % 3 + 1;
      const Ended resumed =
          retort("resume " + name + " --devices " + std::to_string(ranks), folder_.path());
      ASSERT_EQ(resumed.exit, 0) << where << ended.err << resumed.err;
      EXPECT_EQ(values(name, "train/loss").size(), 4) << where;
      if (ranks == 2) EXPECT_TRUE(weights(name) == weights("unkilled")) << where;
      else expect_reordered(values(name, "train/loss"), values("unkilled", "train/loss"));
    }
  }
  EXPECT_GT(killed, 15);
}

TEST_F(ShardedRanks, AllRanksSaveShardedStateWhenStopped) {
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
  const std::string blocks = "memory.activation_checkpointing=block memory.shard=";
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
