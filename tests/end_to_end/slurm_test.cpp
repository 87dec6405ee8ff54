// End-to-end tests of sweeps with a real Slurm on this machine (support/slurm_cluster.sh), which
// take minutes.

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/latest_weights.h"
#include "tests/support/program.h"

namespace {

using nlohmann::json;
using testing::HasSubstr;

class DeepSlurm : public testing::Test {
 protected:
  void SetUp() override {
    const Ended started = run_shell(cluster("start"), folder_.path());
    if (started.exit == 77)
      GTEST_SKIP() << "Slurm is not installed, or this is not root: " << started.err;
    ASSERT_EQ(started.exit, 0) << started.err;
    export_ = "export " + started.out.substr(0, started.out.size() - 1) + "\n";
    // Make the dataset of shapes first, so that concurrent trials do not all make it.
    ASSERT_EQ(retort("run quickstart --smoke -q", folder_.path()).exit, 0);
  }
  void TearDown() override { run_shell(cluster("stop"), folder_.path()); }
  std::string cluster(const std::string& action) const {
    return RETORT_SOURCE_DIR "/tests/support/slurm_cluster.sh " + action + " '" +
           (folder_ / "cluster").string() + "'";
  }
  static std::string sweep(const std::string& seeds, const std::string& more) {
    return RETORT_BINARY_DIR "/bin/retort sweep quickstart seed=" + seeds +
           " threads=1 train.checkpoint.every.steps=2 sweep.dir=s --launcher slurm "
           "sweep.launcher.look_seconds=1 sweep.launcher.memory=512MiB sweep.launcher.gpus=0 " +
           more;
  }
  Ended shell(const std::string& command) const {
    return run_shell(export_ + command, folder_.path());
  }
  json results(const std::string& dir) const {
    return json::parse(file_text(folder_ / (dir + "/results.json")));
  }
  std::string weights(const std::string& dir, int trial) const {
    const std::filesystem::path checkpoints =
        folder_ / (dir + "/" + std::to_string(trial) + "/nodes/train/checkpoints");
    std::string best = file_text(checkpoints / "best");
    if (!best.empty()) best.pop_back();
    return file_text(checkpoints / best / "model.safetensors");
  }
  /// Shell function that waits until trial $1 has started to train; then $task and $trial are the
  /// IDs of the processes that run it.
  static constexpr char kProcessesOf[] = R"(
processes_of() {
  for i in $(seq 1200); do
    if [ -s "s/$1/metrics.jsonl" ]; then break; fi
    sleep 0.1
  done
  task=$(pgrep -f "sweep task $PWD/s/launch/1 $1\$")
  trial=$(pgrep -P "$task")
}
)";

  TemporaryFolder folder_;
  std::string export_;
};

TEST_F(DeepSlurm, TwentyTrialsFinishOnceAlthoughTwoAreKilled) {
  const auto began = std::chrono::steady_clock::now();
  const Ended ended =
      shell(std::string(kProcessesOf) + sweep("'range(0,20)'", "train.epochs=2") + " & sweep=$!\n" +
            "processes_of 3; kill -9 $task\n"   // as if its node had failed
            "processes_of 7; kill -9 $trial\n"  // as if the host had run out of memory
            "wait $sweep");
  RecordProperty(
      "seconds",
      std::to_string(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count()));
  ASSERT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("trial 3: its task is gone (FAILED); it will be resubmitted"));
  EXPECT_THAT(ended.err, HasSubstr("trial 7 stopped: its run was killed"));
  const json trials = results("s")["trials"];
  ASSERT_EQ(trials.size(), 20u);
  for (int trial = 0; trial < 20; ++trial) {
    const std::string number = std::to_string(trial);
    EXPECT_EQ(trials[trial]["state"], "finished") << number;
    EXPECT_EQ(trials[trial]["attempts"], trial == 3 || trial == 7 ? 2 : 1) << number;
    EXPECT_FALSE(std::filesystem::exists(folder_ / ("s/" + number + ".attempt-1")))
        << number << " was restarted";
    const std::string metrics = file_text(folder_ / ("s/" + number + "/metrics.jsonl"));
    std::size_t evaluated = 0;
    for (std::size_t at = 0; (at = metrics.find("\"evaluate/top1\"", at)) != metrics.npos; ++at)
      ++evaluated;
    EXPECT_EQ(evaluated, 1u) << number;
  }
  const Ended again = shell(RETORT_BINARY_DIR "/bin/retort sweep resume s");
  EXPECT_EQ(again.exit, 0);
  EXPECT_THAT(again.err, testing::StartsWith("20 of 20 trials have finished\n"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "s/launch/3")) << "nothing was submitted again";
  ASSERT_EQ(retort("sweep quickstart seed=3,7 threads=1 train.checkpoint.every.steps=2 "
                   "train.epochs=2 sweep.dir=here",
                   folder_.path())
                .exit,
            0);
  EXPECT_TRUE(weights("s", 3) == weights("here", 0)) << "a killed trial gives the same bits";
  EXPECT_TRUE(weights("s", 7) == weights("here", 1));
}

TEST_F(DeepSlurm, TaskThatRunsOutOfTimeSavesAndIsRequeued) {
  const Ended ended = shell(std::string(kProcessesOf) + sweep("1", "train.epochs=20") +
                            " & sweep=$!\n" + "processes_of 0; kill -USR1 $task\nwait $sweep");
  ASSERT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("trial 0 stopped\n"));
  EXPECT_THAT(ended.err, HasSubstr("trial 0 resumed"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "s/launch/2")) << "the same task, not another";
  EXPECT_EQ(results("s")["trials"][0]["attempts"], 2);
}

TEST_F(DeepSlurm, ResumedSweepFollowsTheSameJob) {
  const Ended killed = shell(std::string(kProcessesOf) + sweep("1,2", "train.epochs=5") +
                             " & sweep=$!\nprocesses_of 0; kill -9 $sweep; "
                             "wait $sweep");
  ASSERT_EQ(killed.exit, 137);
  const Ended resumed = shell(RETORT_BINARY_DIR "/bin/retort sweep resume s");
  ASSERT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("continuing with Slurm job 1\n"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "s/launch/2")) << "nothing was submitted twice";
  EXPECT_EQ(results("s")["trials"][1]["state"], "finished");
}

TEST_F(DeepSlurm, MissingPartitionIsRejected) {
  const Ended refused = shell(sweep("1", "sweep.launcher.partition=none"));
  EXPECT_EQ(refused.exit, 69);
  EXPECT_THAT(refused.err, HasSubstr("error[E0721]: sbatch rejected the trials: "));
  EXPECT_THAT(refused.err, HasSubstr("Invalid partition name specified"));
}

/// Two tasks of one Slurm step are the ranks of one run. When one is killed, the job is requeued
/// and continues.
TEST_F(DeepSlurm, JobWithTwoRanksIsRequeuedWhenOneIsKilled) {
  const std::string training =
      "run quickstart threads=1 train.epochs=2 train.checkpoint.every.steps=1 run.dir=";
  const Ended own = shell(RETORT_BINARY_DIR "/bin/retort " + training + "own device.count=2 -q");
  ASSERT_EQ(own.exit, 0) << own.err;
  std::ofstream(folder_ / "job.sh")
      << "#!/bin/bash\n#SBATCH --ntasks=2 --requeue --open-mode=append --output=job.log\n"
         "[ -n \"$SLURM_RESTART_COUNT\" ] || export RETORT_FAULT=retort-worker-1/step:9:kill\n"
         "srun --kill-on-bad-exit=1 sh -c 'R=" RETORT_BINARY_DIR
         "/bin/retort; test -d job && exec $R resume job; exec $R "
      << training << "job memory.max_retries=0'\n"
      << "code=$?\n"
         "[ $code = 0 ] || [ -n \"$SLURM_RESTART_COUNT\" ] || scontrol requeue $SLURM_JOB_ID\n"
         "echo \"ended with $code\"\n";
  const Ended job = shell(
      "sbatch --parsable job.sh\n"
      "for i in $(seq 600); do grep -q 'ended with 0' job.log 2>/dev/null && break; sleep 0.2; "
      "done");
  ASSERT_EQ(job.exit, 0) << job.err;
  const std::string log = file_text(folder_ / "job.log");
  EXPECT_THAT(log, HasSubstr("SIGKILL"));
  EXPECT_THAT(log, HasSubstr("resuming after step"));
  ASSERT_THAT(log, HasSubstr("ended with 0"));
  EXPECT_TRUE(latest_weights(folder_ / "job") == latest_weights(folder_ / "own"));
}

}  // namespace
