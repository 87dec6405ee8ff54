// Runs that continue with another worker, or on another device.

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/shared/error/diagnostic.h"
#include "tests/support/run_fixture.h"

namespace runner {
namespace {

using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

using RunRestartTest = RunTest;

TEST_F(RunRestartTest, KilledWorkerIsReplaced) {
  allow_restarts();
  EXPECT_EQ(run_script({"hello", "read", "ready", "read", kStarted, "new|" + metric("0.5", 1),
                        "new|" + kFlush, "new|read", "new|" + metric("0.25", 2), "new|die:9",
                        R"(again|line:{"event":"resumed","node":"data","metrics":1,"step":1})",
                        "again|" + metric("0.125", 2), kFinished, "finished:0"}),
            ExitCode::kDone);
  EXPECT_EQ(err_.str(),
            "data: the worker was killed: continuing from the last checkpoint, restart 1\n"
            "recovered once: 1 x killed (recoveries in summary.json)\n");
  const auto json = summary();
  EXPECT_EQ(json["status"], "finished");
  EXPECT_EQ(json["metrics"].dump(), R"({"data":{"loss":{"step":2,"value":0.125}}})");
  EXPECT_EQ(
      json["recoveries"].dump(),
      R"([{"cause":"killed","from":"cpu","limit":0,"node":"data","phase":"","step":0,"taken":0,"to":"cpu","tried":0}])");
  EXPECT_THAT(folder_.read("run/metrics.jsonl"), Not(HasSubstr("0.25")))
      << "it was measured after the last save";
  EXPECT_THAT(folder_.read("run/metrics.jsonl"), HasSubstr("0.125"));
  EXPECT_THAT(folder_.read("run/log.txt"),
              HasSubstr("data: the worker was killed: continuing from the last checkpoint"));
}

TEST_F(RunRestartTest, ChangedInputsOrCheckpointsPreventARestart) {
  allow_restarts();
  const std::vector<std::string> killed = {"hello",   "read",          "ready",    "read",
                                           kStarted,  "new|" + kFlush, "new|read", "new|die:9",
                                           kFinished, "finished:0"};
  folder_.write("photos/a.jpg", "one");
  inputs_ = {{"/data/root", folder_.path() / "photos"}};
  before_flush_ = [&] { folder_.write("photos/a.jpg", "another"); };
  EXPECT_EQ(run_script(killed), ExitCode::kBadRecipe);
  EXPECT_THAT(err_.str(), HasSubstr("error[E0807]: since the run started, the input /data/root was "
                                    "1 file with 3 B and is now "));
  EXPECT_THAT(err_.str(), HasSubstr("continue with `retort resume"));
  EXPECT_EQ(summary()["status"], "failed");

  fs::remove_all(folder_.path() / "run");
  graph_.nodes.push_back({"train", "train", "train.test", {}, "/train", {}, 3});
  graph_.recipe_hash = "own";
  before_flush_ = [&] {
    folder_.write("run/nodes/train/checkpoints/step-00000007/state.json",
                  R"({"recipe_hash": "another", "seed": 3})");
  };
  EXPECT_EQ(run_script(killed), ExitCode::kBadRecipe);
  EXPECT_THAT(err_.str(), HasSubstr("step-00000007' belongs to another training run"));
}

TEST_F(RunRestartTest, EarlierRecoveriesStayInTheSummary) {
  const std::string recovered =
      R"(line:{"event":"recovered","node":"data","cause":"out of memory","phase":"backward","step":3,"tried":4,"taken":60,"limit":64,"from":"micro_batch 8","to":"micro_batch 4"})";
  run_script({"hello", "read", "ready", "read", kStarted, recovered, "finished:1"});
  resume_ = (folder_.path() / "run").string();
  run_script({"hello", "read", "ready", "read", kStarted, recovered, kFinished, "finished:0"});
  EXPECT_EQ(summary()["recoveries"].size(), 2);
  EXPECT_EQ(summary()["recoveries"][0], summary()["recoveries"][1]);
  EXPECT_EQ(summary()["recoveries"][0]["to"], "micro_batch 4");
  EXPECT_THAT(err_.str(),
              HasSubstr("recovered 2 times: 2 x out of memory (recoveries in summary.json)\n"));
}

TEST_F(RunRestartTest, WorkerWithALostDeviceIsReplaced) {
  allow_restarts();
  EXPECT_EQ(run_script({"hello", "read", "ready:cuda:0", "read", kStarted, "new|finished:81",
                        "new|exit:81", kFinished, "finished:0"}),
            ExitCode::kDone);
  EXPECT_EQ(err_.str(),
            "data: the device 'cuda:0' failed: continuing from the last checkpoint, restart 1\n"
            "recovered once: 1 x device lost (recoveries in summary.json)\n");
}

TEST_F(RunRestartTest, WorkersWithoutProgressEndTheRun) {
  allow_restarts();
  EXPECT_EQ(
      run_script({"hello", "read", "ready:cuda:0", "read", kStarted, "finished:81", "exit:81"}),
      ExitCode::kDeviceUnavailable);
  EXPECT_THAT(
      err_.str(),
      HasSubstr(
          "error[E0712]: the device 'cuda:0' failed and cannot be used again by the same process"));
  EXPECT_THAT(
      err_.str(),
      HasSubstr("help: it failed again after the run was restarted: try a different device"));
  EXPECT_EQ(summary()["status"], "failed");
  EXPECT_EQ(summary()["exit"], 69);
}

TEST_F(RunRestartTest, WorkersAreNotRestartedWithoutAPolicy) {
  EXPECT_EQ(run_script({"hello", "read", "ready", "read", kStarted, "die:9"}),
            ExitCode::kRunFailed);
  EXPECT_THAT(err_.str(), HasSubstr("error[E0704]: the worker was killed by signal 9 (SIGKILL)"));
  EXPECT_FALSE(summary().contains("recoveries"));
}

const std::string kStranded =
    R"(line:{"event":"stranded","node":"data","to":["gpu","cpu"],"retries":0,"error":{"severity":"error","code":"E0706","message":"out of memory","pointer":"/data","help":"use less","notes":[]},"incident":{"cause":"out of memory","phase":"backward","step":3,"tried":4,"taken":60,"limit":64,"from":"","to":""}})";

TEST_F(RunRestartTest, NextWorkerReceivesDeviceFolderAndRestarts) {
  graph_.device = "cuda";
  run_script({"hello", "echo", "new|ready:cuda:0", "new|read", "new|" + kStranded,
              "new|finished:80", "new|exit:80", "ready", "read", kStarted, kFinished,
              "finished:0"});
  EXPECT_THAT(err_.str(), HasSubstr(R"("device":"cpu",)"));
  EXPECT_THAT(err_.str(), HasSubstr(R"("resume":true,)"));
  EXPECT_THAT(err_.str(), HasSubstr(R"("folder":")" + (folder_.path() / "run").string() + '"'));
  EXPECT_THAT(err_.str(), HasSubstr(R"("restarts":{"plans":0,"retries":0,"has_moved":true})"));
  EXPECT_THAT(err_.str(), HasSubstr("data: continues on cpu instead of cuda:0: out of memory; the "
                                    "CPU is slower, and its results differ in their last bits\n"));
  EXPECT_EQ(summary()["status"], "finished");
  EXPECT_EQ(nlohmann::json::parse(folder_.read("run/.retort/environment.json"))["device"], "cpu");
}

/// The GPU `index`, held by a lock in the folder `locks`.
OwnDevice held_gpu(int index, const LockFolder& locks) {
  const std::string uuid = "GPU-" + std::to_string(index);
  OwnDevice own{.taken = {.select = "cuda:0",
                          .device = DeviceFacts{.index = index, .uuid = uuid, .name = "L4"},
                          .is_only_visible = true,
                          .lock = DeviceLock::take(locks, uuid)},
                .record = {{"asked", "auto"}, {"index", index}, {"uuid", uuid}}};
  EXPECT_TRUE(own.taken.lock) << uuid;
  return own;
}

TEST_F(RunRestartTest, StrandedRunReleasesItsGpuAndUsesAnother) {
  const LockFolder locks = *LockFolder::open(folder_.path() / "locks");
  device_ = held_gpu(0, locks);
  graph_.device = "cuda:0";
  variables_ = {"CUDA_VISIBLE_DEVICES=GPU-0"};
  std::vector<std::string> left_then;
  next_gpu_ = [&](const std::vector<std::string>& left) -> Result<OwnDevice> {
    left_then = left;
    EXPECT_TRUE(DeviceLock::take(locks, "GPU-0")) << "the GPU was released";
    return held_gpu(1, locks);
  };
  run_script({"hello", "echo", "variable:CUDA_VISIBLE_DEVICES", "new|ready:cuda:0", "new|read",
              "new|" + kStranded, "new|finished:80", "new|exit:80", "ready:cuda:0", "read",
              kStarted, kFinished, "finished:0"});
  EXPECT_THAT(left_then, testing::ElementsAre("GPU-0"));
  EXPECT_TRUE(DeviceLock::take(locks, "GPU-0"));
  EXPECT_TRUE(DeviceLock::take(locks, "GPU-1")) << "the run is over";
  EXPECT_THAT(err_.str(), HasSubstr("CUDA_VISIBLE_DEVICES='GPU-0'"));
  EXPECT_THAT(err_.str(), HasSubstr("CUDA_VISIBLE_DEVICES='GPU-1'"));
  EXPECT_THAT(err_.str(),
              HasSubstr("data: continues on GPU 1 (L4) instead of GPU 0 (L4): out of memory\n"));
  const auto environment = nlohmann::json::parse(folder_.read("run/.retort/environment.json"));
  EXPECT_EQ(environment["device_choice"]["uuid"], "GPU-1");
  EXPECT_EQ(environment["variables"]["CUDA_VISIBLE_DEVICES"], "GPU-1");
  EXPECT_EQ(summary()["status"], "finished");
  const auto recoveries = summary()["recoveries"];
  ASSERT_EQ(recoveries.size(), 1);
  EXPECT_EQ(recoveries[0]["from"], "GPU 0 (L4)");
  EXPECT_EQ(recoveries[0]["to"], "GPU 1 (L4)");
  EXPECT_EQ(recoveries[0]["tried"], 4);
  EXPECT_EQ(recoveries[0]["taken"], 60);
  EXPECT_EQ(recoveries[0]["limit"], 64);
  EXPECT_EQ(recoveries[0]["cause"], "out of memory");
}

TEST_F(RunRestartTest, GpuIsHeldWhileItsRunIsActive) {
  const LockFolder locks = *LockFolder::open(folder_.path() / "locks");
  device_ = held_gpu(0, locks);
  int asked = 0;
  next_gpu_ = [&](const std::vector<std::string>&) -> Result<OwnDevice> {
    if (asked++ == 0) return held_gpu(1, locks);
    EXPECT_FALSE(DeviceLock::take(locks, "GPU-2"));
    EXPECT_TRUE(DeviceLock::take(locks, "GPU-1"));
    return Diagnostic{ErrorCode::kDeviceUnavailable, {}, "", "there is none", ""};
  };
  const auto other = DeviceLock::take(locks, "GPU-2");
  // The second worker is stranded as well, and the third is on the CPU.
  EXPECT_EQ(run_script({"hello", "echo", "new|ready:cuda:0", "again|ready:cuda:0", "read",
                        kStranded, "finished:80", "exit:80"}),
            ExitCode::kRunFailed);
  EXPECT_EQ(asked, 2);
  EXPECT_THAT(err_.str(), HasSubstr("continues on cpu instead of GPU 1 (L4): out of memory"));
  EXPECT_THAT(err_.str(), HasSubstr("no other GPU: there is none"));
  EXPECT_TRUE(DeviceLock::take(locks, "GPU-1")) << "the CPU needs no GPU";
}

TEST_F(RunRestartTest, RunThatMovesToTheCpuReleasesItsGpu) {
  const LockFolder locks = *LockFolder::open(folder_.path() / "locks");
  device_ = held_gpu(0, locks);
  std::string to_cpu = kStranded;
  to_cpu.replace(to_cpu.find(R"("gpu",)"), 6, "");
  run_script({"hello", "read", "new|ready:cuda:0", "new|read", "new|" + to_cpu, "new|finished:80",
              "new|exit:80", "ready", "read", kStarted, kFinished, "finished:0"});
  EXPECT_EQ(summary()["status"], "finished");
  EXPECT_TRUE(DeviceLock::take(locks, "GPU-0"));
}

TEST_F(RunRestartTest, SignalDuringTheWaitForAGpuEndsTheRun) {
  const LockFolder locks = *LockFolder::open(folder_.path() / "locks");
  device_ = held_gpu(0, locks);
  next_gpu_ = [&](const std::vector<std::string>&) -> Result<OwnDevice> {
    return stopped_by(SIGINT, "after a wait");
  };
  const std::vector<std::string> stranded = {kStranded, "finished:80", "exit:80"};
  std::vector<std::string> acts = {"hello", "read", "ready:cuda:0", "read", kStarted};
  acts.insert(acts.end(), stranded.begin(), stranded.end());
  EXPECT_EQ(run_script(acts), ExitCode::kInterrupted);
  EXPECT_THAT(err_.str(), HasSubstr("interrupted"));
  EXPECT_EQ(summary()["status"], "interrupted");
  recipe_.run_dir = "saved";
  device_ = held_gpu(0, locks);
  acts.insert(acts.begin() + 5, {kFlush, "read"});
  EXPECT_EQ(run_script(acts), ExitCode::kStoppedAfterSave);
  EXPECT_THAT(err_.str(), HasSubstr("interrupted: continue with `retort resume "));
}

TEST_F(RunRestartTest, StrandedNodeWithoutADeviceIsAnError) {
  const std::string nowhere =
      R"(line:{"event":"stranded","node":"data","to":["gpu"],"retries":0,"error":{"severity":"error","code":"E0706","message":"out of memory","pointer":"/data","help":"use less","notes":[]},"incident":{"cause":"out of memory","phase":"backward","step":3,"tried":4,"taken":60,"limit":64,"from":"","to":""}})";
  EXPECT_EQ(run_script({"hello", "read", "ready:cuda:0", "read", kStarted, nowhere, "finished:80",
                        "exit:80"}),
            ExitCode::kRunFailed);
  EXPECT_THAT(err_.str(), HasSubstr("error[E0706]: out of memory"));
  EXPECT_THAT(err_.str(), HasSubstr("help: use less"));
  EXPECT_EQ(summary()["exit"], 1);
}

}  // namespace
}  // namespace runner
