// End-to-end tests of training with several ranks (device.count).

#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <future>
#include <map>
#include <sstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/latest_weights.h"
#include "tests/support/program.h"
#include "tests/support/shared_folder.h"

namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

class Ranks : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.is_made()) return;
    const Ended made = retort(
        "data make image_folder --out photos --classes 2 --per-class 10 --size 24 --seed 5 -q",
        folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
    folder_.keep();
  }
  /// Trains for two epochs of two steps each, the second step with an uneven batch, and saves after
  /// each step.
  Ended train(const std::string& name, int ranks, const std::string& more = "",
              const std::string& fault = "") {
    return run_shell((fault.empty() ? "" : "RETORT_FAULT=" + fault + ' ') + RETORT_BINARY_DIR +
                         "/bin/retort run quickstart data.root=photos data.make=null "
                         "data.image_size=16 model.patch_size=8 model.num_hidden_layers=1 "
                         "train.epochs=2 train.batch_size=9 train.checkpoint.every.steps=1 "
                         "train.log_every=1 device=cpu device.count=" +
                         std::to_string(ranks) + " run.dir=" + name + ' ' + more,
                     folder_.path());
  }
  std::string weights(const std::string& name) const { return latest_weights(folder_ / name); }
  json summary(const std::string& name) const {
    return json::parse(file_text(folder_ / (name + "/summary.json")));
  }
  /// The values of a metric in recording order.
  std::vector<double> values(const std::string& name, const std::string& metric) const {
    std::vector<double> all;
    std::istringstream lines(file_text(folder_ / (name + "/metrics.jsonl")));
    for (std::string line; std::getline(lines, line);) {
      const json one = json::parse(line);
      if (one.at("name") == metric) all.push_back(one.at("value"));
    }
    return all;
  }

  SharedFolder folder_;
};

/// How much a float32 sum of some thousand terms may change when they are added in another order,
/// with a margin for the layers that it passes through.
constexpr double kFloatBits = 6e-8, kReordered = 4096 * kFloatBits;

TEST_F(Ranks, TrainLikeASingleRank) {
  ASSERT_EQ(train("one", 1).exit, 0);
  for (const int ranks : {2, 3}) {
    const std::string name = "of-" + std::to_string(ranks);
    const Ended ended = train(name, ranks);
    ASSERT_EQ(ended.exit, 0) << ended.err;
    for (const char* const metric : {"train/loss", "validation/loss"}) {
      const auto one = values("one", metric), all = values(name, metric);
      ASSERT_EQ(all.size(), one.size()) << metric;
      ASSERT_FALSE(one.empty());
      for (std::size_t i = 0; i < one.size(); ++i)
        EXPECT_NEAR(all[i], one[i], kReordered * std::abs(one[i])) << metric << " " << i;
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
        const auto losses = values(name, "train/loss");
        if (one.empty()) one = losses;
        ASSERT_EQ(losses.size(), one.size());
        for (std::size_t i = 0; i < one.size(); ++i)
          EXPECT_NEAR(losses[i], one[i], kReordered * std::abs(one[i])) << name << " " << i;
      }
    }
  }
}

TEST_F(Ranks, RunStopsWhenOneIsKilledAndCanBeResumed) {
  ASSERT_EQ(train("whole", 2).exit, 0);
  for (const std::string worker : {"retort-worker", "retort-worker-1"}) {
    const std::string name = "killed-" + worker;
    const Ended killed = train(name, 2, "memory.max_retries=0", worker + "/step:3:kill");
    EXPECT_EQ(killed.exit, 1) << killed.err;
    EXPECT_THAT(killed.err, HasSubstr("SIGKILL"));
    EXPECT_THAT(killed.err, Not(HasSubstr("has lost contact with another rank")))
        << "only the cause is shown";
    EXPECT_THAT(killed.err, HasSubstr("retort resume"));
    const Ended resumed = retort("resume " + name, folder_.path());
    EXPECT_EQ(resumed.exit, 0) << resumed.err;
    EXPECT_TRUE(weights(name) == weights("whole"));
    EXPECT_EQ(summary(name)["status"], "finished");
  }
}

/// The process of a rank's worker, among the descendants of the process `retort`.
pid_t worker_of(pid_t retort, int rank) {
  const std::string own = std::to_string(retort);
  std::istringstream workers(file_text("/proc/" + own + "/task/" + own + "/children"));
  const std::string mark = "RETORT_RANK=" + std::to_string(rank);
  for (pid_t worker = 0; workers >> worker;) {
    const std::string variables = file_text("/proc/" + std::to_string(worker) + "/environ");
    const bool is_other = variables.find("RETORT_RANK=") != variables.npos;
    if (rank == 0 ? !is_other : variables.find(mark) != variables.npos) return worker;
  }
  return 0;
}

TEST_F(Ranks, RunEndsWhenOneDoesNotRespondAndCanBeResumed) {
  for (const int silent : {0, 1}) {
    const std::string name = "silent-" + std::to_string(silent);
    auto all = std::async(std::launch::async, [&] {
      return train(name, 3,
                   "train.epochs=100000 train.schedule.kind=constant "
                   "device.collective_timeout_seconds=15 & echo $! >" +
                       name + ".pid; wait $!");
    });
    const fs::path metrics = folder_ / (name + "/metrics.jsonl");
    for (int i = 0; i < 3000 && (!fs::exists(metrics) || fs::file_size(metrics) == 0); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const pid_t worker = worker_of(std::stoi(file_text(folder_ / (name + ".pid"))), silent);
    ASSERT_GT(worker, 0);
    ASSERT_EQ(kill(worker, SIGSTOP), 0);
    const Ended ended = all.get();
    EXPECT_EQ(ended.exit, 1) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr("rank " + std::to_string(silent) +
                                     " has not responded for 15 s "
                                     "(device.collective_timeout_seconds), and last took part in "
                                     "step "));
    EXPECT_THAT(ended.err, HasSubstr(" of 'train'"));
    EXPECT_THAT(ended.err, HasSubstr("retort resume " + name));
    EXPECT_NE(kill(worker, 0), 0) << "it has ended as well";
    const auto steps = values(name, "train/loss").size();
    const Ended resumed =
        retort("resume " + name + " train.epochs=" + std::to_string(steps / 2 + 2), folder_.path());
    EXPECT_EQ(resumed.exit, 0) << resumed.err;
  }
}

TEST_F(Ranks, TimeoutIsAtLeastASecond) {
  const Ended ended = train("no-time", 2, "device.collective_timeout_seconds=0");
  EXPECT_EQ(ended.exit, 78);
  EXPECT_THAT(ended.err, HasSubstr("[/device/collective_timeout_seconds]"));
}

TEST_F(Ranks, FailureOfOneIsReportedAsTheReason) {
  const Ended ended = train("failed", 2, "", "retort-worker-1/step:2:fail");
  EXPECT_EQ(ended.exit, 1);
  EXPECT_THAT(ended.err, HasSubstr("rank 1: "));
  EXPECT_THAT(ended.err, HasSubstr("this step was set to fail"));
}

TEST_F(Ranks, AllRecoverWhenOneRunsOutOfMemory) {
  ASSERT_EQ(train("enough", 2).exit, 0);
  int recovered = 0;
  for (int block = 120; block < 900; block += 65) {
    const std::string name = "short-" + std::to_string(block);
    const Ended ended =
        train(name, 2, "", "retort-worker-1/alloc:" + std::to_string(block) + ":fail");
    if (ended.exit == 1) {  // outside a step
      EXPECT_THAT(ended.err, HasSubstr("rank 1: ")) << block;
      continue;
    }
    ASSERT_EQ(ended.exit, 0) << block << ended.err;
    recovered += ended.err.find("recovered once") != std::string::npos;
    EXPECT_EQ(values(name, "train/loss").size(), 4);
    EXPECT_TRUE(weights(name) == weights("enough")) << "the step is repeated exactly";
  }
  EXPECT_GT(recovered, 3);
}

TEST_F(Ranks, CanBeResumedInAnotherNumber) {
  ASSERT_EQ(train("alone", 1).exit, 0);
  EXPECT_EQ(train("more", 3, "memory.max_retries=0", "retort-worker/step:3:kill").exit, 1);
  const Ended resumed = retort("resume more device.count=1", folder_.path());
  ASSERT_EQ(resumed.exit, 0) << resumed.err;
  const auto one = values("alone", "train/loss"), more = values("more", "train/loss");
  ASSERT_EQ(more.size(), one.size());
  for (std::size_t i = 0; i < one.size(); ++i)
    EXPECT_NEAR(more[i], one[i], kReordered * std::abs(one[i])) << i;
}

// Optimizer state divided among ranks.

TEST_F(Ranks, ShardedStateGivesTheSameBits) {
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

TEST_F(Ranks, ShardedStateIsResumedInAnyNumber) {
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

TEST_F(Ranks, ShardedGradientsAreReproducibleAndResumedInAnyNumber) {
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
  const auto plain = values("plain", "train/loss"), losses = values("sharded", "train/loss");
  ASSERT_EQ(losses.size(), plain.size());
  for (std::size_t i = 0; i < plain.size(); ++i)
    EXPECT_NEAR(losses[i], plain[i], kReordered * std::abs(plain[i])) << i;
  EXPECT_EQ(train("killed", 2, sharded + once, "retort-worker-1/step:3:kill").exit, 1);
  ASSERT_EQ(retort("resume killed", folder_.path()).exit, 0);
  EXPECT_TRUE(weights("killed") == weights("sharded"));
  EXPECT_EQ(train("fewer", 2, sharded + once, "retort-worker/step:3:kill").exit, 1);
  const Ended resumed = retort("resume fewer --devices 1", folder_.path());
  ASSERT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_EQ(values("fewer", "train/loss").size(), 4);
}

TEST_F(Ranks, ShardedParametersTrainValidateAndAreResumedInAnyNumber) {
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
  for (const char* const metric : {"train/loss", "validation/loss"}) {
    const auto one = values("one", metric), losses = values("sharded", metric);
    ASSERT_EQ(losses.size(), one.size()) << metric;
    for (std::size_t i = 0; i < one.size(); ++i)
      EXPECT_NEAR(losses[i], one[i], kReordered * std::abs(one[i])) << metric << " " << i;
  }
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

TEST_F(Ranks, ShardedParametersNeedWhatIsPlanned) {
  const std::string large =
      "model.num_hidden_layers=6 model.hidden_size=256 model.intermediate_size=1024 "
      "model.num_attention_heads=4 memory.activation_checkpointing=block memory.shard=";
  std::map<std::string, std::int64_t> most;
  for (const std::string shard : {"gradients", "parameters"}) {
    const Ended ended = train("large-" + shard, 2, large + shard);
    ASSERT_EQ(ended.exit, 0) << ended.err;
    const fs::path run = folder_ / ("large-" + shard);
    const json plan = json::parse(file_text(run / "nodes/train/plan.json"));
    for (const char* const node : {"nodes/train", "ranks/1/nodes/train"}) {
      const std::int64_t counted =
          json::parse(file_text(run / node / "finished.json")).at("peak_memory_bytes");
      most[shard] = std::max(most[shard], counted);
    }
    EXPECT_LE(most[shard], plan.at("needed").get<std::int64_t>()) << shard;
    EXPECT_GE(most[shard], plan.at("live").get<std::int64_t>() * 97 / 100) << shard;
  }
}

TEST_F(Ranks, AllSaveShardedStateWhenStopped) {
  const std::string endless =
      "memory.shard=optimizer train.epochs=100000 train.checkpoint.every.steps=1000000";
  auto all = std::async(std::launch::async,
                        [&] { return train("stopped", 2, endless + " & echo $! >pid; wait $!"); });
  const fs::path metrics = folder_ / "stopped/metrics.jsonl";
  for (int i = 0; i < 3000 && (!fs::exists(metrics) || fs::file_size(metrics) == 0); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  kill(std::stoi(file_text(folder_ / "pid")), SIGTERM);
  const Ended ended = all.get();
  EXPECT_EQ(ended.exit, 75) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("retort resume stopped"));
  EXPECT_THAT(ended.err, Not(HasSubstr("rank 1")));
  EXPECT_NE(weights("stopped"), "") << "all ranks have saved";
}

TEST_F(Ranks, ShardedStateIsPlannedAndCertified) {
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
  // Reading the best weights takes as much memory as the network on every rank.
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

TEST_F(Ranks, AutoChoosesTheFewestThatFit) {
  const std::string recipe =
      " quickstart data.root=photos data.make=null data.image_size=16 model.patch_size=8 "
      "model.num_hidden_layers=1 train.epochs=1 device=cpu memory.shard=gradients ";
  const auto needed = [&](int ranks) -> std::int64_t {
    const Ended planned =
        retort("plan" + recipe + "--json device.count=" + std::to_string(ranks), folder_.path());
    EXPECT_EQ(planned.exit, 0) << planned.err;
    return json::parse(planned.out).at("result").at("plans").at(0).at("needed");
  };
  const std::int64_t two = needed(2), three = needed(3);
  const std::int64_t thousandths = three * 1000 / (1 << 20) + 1;  // of a MiB
  ASSERT_GT(two, thousandths * (1 << 20) / 1000);
  const std::string digits = std::to_string(1000 + thousandths % 1000).substr(1);
  const std::string enough_for_three = std::to_string(thousandths / 1000) + '.' + digits + "MiB";
  const Ended planned =
      retort("plan" + recipe + "device.count=auto --budget " + enough_for_three, folder_.path());
  EXPECT_EQ(planned.exit, 0) << planned.err;
  EXPECT_THAT(planned.err, HasSubstr("device.count: auto is 3: with 2, train needs "));

  const std::string budget = "memory.budget=" + enough_for_three + ' ';
  const Ended ran =
      retort("run" + recipe + "device.count=auto run.dir=fewest " + budget, folder_.path());
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("device.count: auto is 3"));
  const Ended again =
      retort("run" + recipe + "device.count=3 run.dir=three " + budget, folder_.path());
  ASSERT_EQ(again.exit, 0) << again.err;
  EXPECT_TRUE(weights("fewest") == weights("three"));

  const Ended alone = retort("plan" + recipe + "device.count=auto device=auto", folder_.path());
  EXPECT_EQ(alone.exit, 0) << alone.err;
  EXPECT_THAT(alone.err, HasSubstr("device.count: auto is "));

  const Ended fits = retort("plan" + recipe + "device.count=auto", folder_.path());
  EXPECT_THAT(fits.err, HasSubstr("device.count: auto is 1: train needs "));
}

TEST_F(Ranks, AutoIsRejectedWhereItCannotChoose) {
  const std::string recipe =
      " quickstart data.root=photos data.make=null device=cpu device.count=auto ";
  const Ended nothing = retort("plan" + recipe + "--budget 1MiB", folder_.path());
  EXPECT_EQ(nothing.exit, 1) << nothing.err;
  EXPECT_THAT(nothing.err, HasSubstr("[/device/count]"));
  EXPECT_THAT(nothing.err, HasSubstr("does not fit with any number of ranks up to 8: with 8, "));
  const Ended sweep = retort("sweep" + recipe + "seed=1,2", folder_.path());
  EXPECT_EQ(sweep.exit, 78) << sweep.err;
  EXPECT_THAT(sweep.err, HasSubstr("device.count: auto cannot be used in a sweep"));
  ASSERT_EQ(train("to-resume", 1).exit, 0);
  const Ended resumed = retort("resume to-resume device.count=auto", folder_.path());
  EXPECT_EQ(resumed.exit, 78) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("this run already has a record"));
}

/// Added to the variance before BatchNorm divides by its square root.
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

constexpr const char* kSmall =
    " quickstart data.root=photos data.make=null data.image_size=16 model.patch_size=8 "
    "model.num_hidden_layers=1 train.batch_size=9 device=cpu device.count=";

TEST_F(Ranks, LearningRateIsFoundByAll) {
  const auto losses = [&](const std::string& ranks) {
    const Ended ended = retort("lr-find --steps 20 --json" + (kSmall + ranks), folder_.path());
    std::vector<double> found;
    const json answer = json::parse(ended.out);
    for (const json& point : answer.at("result").at("points")) found.push_back(point.at("loss"));
    return found;
  };
  const auto one = losses("1"), all = losses("3");
  ASSERT_FALSE(one.empty());
  EXPECT_NEAR(all.at(0), one.at(0), kReordered * std::abs(one[0]));
  const Ended failed = run_shell("RETORT_FAULT=retort-worker-1/step:3:fail " RETORT_BINARY_DIR
                                 "/bin/retort lr-find --steps 20" +
                                     (kSmall + std::string("2")),
                                 folder_.path());
  EXPECT_EQ(failed.exit, 1);
  EXPECT_THAT(failed.err, HasSubstr("rank 1: this step was set to fail"));
}

TEST_F(Ranks, FeaturesAreComputedOnceByAllTogether) {
  const auto probe = [&](const std::string& name, int ranks, const std::string& more = "",
                         const std::string& fault = "") {
    return run_shell(
        "RETORT_CACHE=$PWD/cache " + fault +
            " " RETORT_BINARY_DIR
            "/bin/retort run finetune data=image_folder model=linear_probe "
            "model/backbone=tiny model.backbone.num_hidden_layers=1 data.root=photos "
            "data.image_size=28 data.augment.random_resized_crop=null "
            "data.augment.horizontal_flip=0 data.loader.workers=0 features.batch_size=4 threads=1 "
            "epochs=2 train.batch_size=8 device=cpu device.count=" +
            std::to_string(ranks) + " run.dir=" + name + ' ' + more,
        folder_.path());
  };
  const auto features = [&](const std::string& run, const std::string& part) {
    return file_text(folder_ / (run + "/nodes/features/" + part + ".safetensors"));
  };
  for (const int ranks : {1, 3}) {
    const Ended ended = probe("probe-" + std::to_string(ranks), ranks, "--no-reuse");
    ASSERT_EQ(ended.exit, 0) << ended.err;
  }
  for (const char* const part : {"train", "validation", "test"}) {
    EXPECT_NE(features("probe-3", part), "");
    EXPECT_TRUE(features("probe-3", part) == features("probe-1", part)) << part;
    EXPECT_EQ(features("probe-3/ranks/1", part), "") << "only rank 0 writes them";
  }
  EXPECT_THAT(file_text(folder_ / "probe-3/log.txt"), HasSubstr("rank 1: train: "));

  const Ended again = probe("probe-again", 3, "lr=0.02");
  ASSERT_EQ(again.exit, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("features: reused from"));
  EXPECT_THAT(file_text(folder_ / "probe-again/log.txt"), Not(HasSubstr("rank 1: train: ")))
      << "the other ranks read them";

  for (const std::string event : {"3", "5", "7"}) {
    const Ended killed = probe("probe-killed-" + event, 3, "--no-reuse memory.max_retries=0",
                               "RETORT_FAULT=retort-worker-1/event:" + event + ":kill");
    EXPECT_EQ(killed.exit, 1);
    EXPECT_THAT(killed.err, HasSubstr("SIGKILL"));
  }
}

TEST_F(Ranks, DeterminismIsCheckedOnAll) {
  const Ended ended =
      retort("doctor determinism --steps 2" + (kSmall + std::string("2")), folder_.path());
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(ended.out, testing::StartsWith("deterministic: 2 steps"));
  const Ended failed = run_shell("RETORT_FAULT=retort-worker-1/step:2:fail " RETORT_BINARY_DIR
                                 "/bin/retort doctor determinism" +
                                     (kSmall + std::string("2")),
                                 folder_.path());
  EXPECT_EQ(failed.exit, 1);
  EXPECT_THAT(failed.err, HasSubstr("rank 1: this step was set to fail"));
}

TEST_F(Ranks, AreForTraining) {
  ASSERT_EQ(train("trained", 2).exit, 0);
  for (const std::string count : {"3", "auto"}) {
    for (const std::string verb :
         {"predict trained photos", "embed trained photos --out e", "evaluate trained run.dir=e"}) {
      const Ended ended = retort(verb + " device.count=" + count, folder_.path());
      EXPECT_EQ(ended.exit, 78) << verb << ended.err;
      EXPECT_THAT(ended.err, HasSubstr("device.count"));
      EXPECT_FALSE(fs::exists(folder_ / "e"));
    }
  }
  for (const std::string count : {"1", "2"})
    EXPECT_EQ(
        retort("evaluate trained device.count=" + count + " run.dir=of-" + count, folder_.path())
            .exit,
        0);
}

TEST_F(Ranks, DoNotWaitForAGpu) {
  const Ended ended = train("waits", 2, "device.select=auto device.wait_for_gpu=true");
  EXPECT_EQ(ended.exit, 78);
  EXPECT_THAT(ended.err, HasSubstr("device.wait_for_gpu waits for a single GPU, but device.count "
                                   "is 2"));
  EXPECT_THAT(ended.err, HasSubstr("set device.wait_for_gpu: false, or device.count: 1"));
  EXPECT_FALSE(fs::exists(folder_ / "waits"));
}

TEST_F(Ranks, AreAtLeastOne) { EXPECT_EQ(train("none", 0).exit, 78); }

TEST_F(Ranks, CertifyComparesThemWithASingleRank) {
  const Ended ended = retort(
      "certify quickstart data.root=photos data.make=null data.image_size=16 "
      "model.patch_size=8 device.count=3",
      folder_.path());
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("3 ranks"));
}

TEST_F(Ranks, DoctorMeasuresThem) {
  const Ended ended = retort("doctor ranks --devices 3", folder_.path());
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(ended.out, testing::StartsWith("3 ranks on this machine\n"));
  EXPECT_THAT(ended.out, testing::ContainsRegex("8 B +[0-9.]+ ms +[0-9].*/s\n"));
  EXPECT_THAT(ended.out, testing::ContainsRegex("25.* MiB +[0-9.]+ ms +[0-9].*/s\n"));
  const json answer = json::parse(retort("doctor ranks --json", folder_.path()).out).at("result");
  EXPECT_EQ(answer.at("ranks"), 2);
  EXPECT_EQ(answer.at("sums").size(), 3);
}

}  // namespace
