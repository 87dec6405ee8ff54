// End-to-end tests of sweeps that start their trials with fake cluster commands.

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/fake_slurm.h"
#include "tests/support/program.h"
#include "tests/support/shared_folder.h"

namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

class LaunchedSweep : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.is_made()) return;
    ASSERT_EQ(retort("data make image_folder --out photos --classes 2 --per-class 4 --size 32 -q",
                     folder_.path())
                  .exit,
              0);
    folder_.keep();
  }
  Ended sweep(const std::string& dir, const std::string& more = "") const {
    return retort(
        "sweep classify data.root=photos data.image_size=32 model.patch_size=8 threads=1 "
        "train.epochs=1 seed=1,2 sweep.dir=" +
            dir + " " + more,
        folder_.path());
  }
  /// The results without the values that differ from run to run.
  json results(const std::string& dir) const {
    json all = json::parse(file_text(folder_ / (dir + "/results.json")));
    all.erase("folder");
    for (json& trial : all["trials"]) {
      for (const char* key : {"seconds", "overrides"}) trial.erase(key);
      for (auto metric = trial["metrics"].begin(); metric != trial["metrics"].end();)
        metric = metric.key().starts_with("memory/") ? trial["metrics"].erase(metric)
                                                     : std::next(metric);
    }
    return all;
  }
  std::string weights(const std::string& dir, int trial) const {
    const std::filesystem::path checkpoints =
        folder_ / (dir + "/" + std::to_string(trial) + "/nodes/train/checkpoints");
    std::string best = file_text(checkpoints / "best");
    if (!best.empty()) best.pop_back();
    return file_text(checkpoints / best / "model.safetensors");
  }
  SharedFolder folder_;
};

TEST_F(LaunchedSweep, SlurmGivesTheSameBitsAsALocalSweep) {
  ASSERT_EQ(sweep("here").exit, 0);
  const FakeSlurm slurm;
  const Ended launched =
      sweep("there", "--launcher slurm sweep.launcher.look_seconds=0.05 sweep.launcher.gpus=0");
  ASSERT_EQ(launched.exit, 0) << launched.err << slurm.log(7);
  EXPECT_THAT(launched.err, AllOf(HasSubstr("from the plans of 2 of 2 trials\n"),
                                  HasSubstr("Slurm job 7: 2 trials\n"),
                                  HasSubstr("trial 1 started (seed=2), task 7_1 on "),
                                  HasSubstr("trial 1 finished in ")));
  EXPECT_THAT(launched.out, HasSubstr("best: trial "));
  EXPECT_TRUE(results("there") == results("here"));
  for (int trial = 0; trial < 2; ++trial) {
    EXPECT_FALSE(weights("here", trial).empty());
    EXPECT_TRUE(weights("there", trial) == weights("here", trial)) << trial;
  }
  EXPECT_THAT(file_text(folder_ / "there/launch/1/script.sh"),
              HasSubstr("#SBATCH --cpus-per-task=1\n#SBATCH --mem="));
}

TEST_F(LaunchedSweep, RejectedArrayIsSubmittedAfterCorrection) {
  const FakeSlurm slurm;
  slurm.does("sbatch", "echo 'sbatch: error: invalid partition specified: gpu' >&2; exit 1");
  const Ended refused = sweep("s",
                              "--launcher slurm sweep.launcher.look_seconds=0.05 "
                              "sweep.launcher.memory=1GiB sweep.launcher.partition=gpu");
  EXPECT_EQ(refused.exit, 69);
  EXPECT_THAT(
      refused.err,
      AllOf(HasSubstr("error[E0721]: sbatch rejected the trials: sbatch: error: invalid partition"),
            HasSubstr("continue with `retort sweep resume ")));
  slurm.does("sbatch", "");
  const Ended resumed =
      run_shell("sed -i 's/\"gpu\"/\"cpu\"/' s/launch/launcher.json; " RETORT_BINARY_DIR
                "/bin/retort sweep resume s",
                folder_.path());
  EXPECT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_THAT(file_text(folder_ / "s/launch/2/script.sh"),
              AllOf(HasSubstr("#SBATCH --partition=cpu\n"), HasSubstr("#SBATCH --gpus=1\n")))
      << "device: auto may use a GPU";
}

TEST_F(LaunchedSweep, KubernetesGetsAManifestAndResultsAreCollected) {
  const std::string kubernetes =
      "--launcher kubernetes sweep.launcher.image=a/retort:1 sweep.launcher.claim=lab "
      "sweep.launcher.memory=1GiB";
  const Ended printed = sweep("s", kubernetes);
  EXPECT_EQ(printed.exit, 0) << printed.err;
  EXPECT_THAT(printed.out, testing::StartsWith("apiVersion: batch/v1\nkind: Job\n"));
  EXPECT_THAT(printed.out, HasSubstr("nvidia.com/gpu: 1}"));
  EXPECT_THAT(printed.out, testing::EndsWith("persistentVolumeClaim: {claimName: \"lab\"}\n"));
  EXPECT_EQ(retort("sweep task s/launch/1 1 -q", folder_.path()).exit, 0);
  const Ended half = retort("sweep resume s", folder_.path());
  EXPECT_EQ(half.exit, 75);
  EXPECT_THAT(half.err, HasSubstr("1 trial has not ended yet\n"));
  EXPECT_EQ(retort("sweep task s/launch/1 0 -q", folder_.path()).exit, 0);
  const Ended whole = retort("sweep resume s", folder_.path());
  EXPECT_EQ(whole.exit, 0) << whole.err;
  EXPECT_THAT(whole.out, HasSubstr("best: trial "));
}

TEST_F(LaunchedSweep, InvalidOptionsAreRejectedBeforeAnythingIsWritten) {
  const std::pair<const char*, const char*> refused[] = {
      {"--launcher slrm", "error[E0205]: the group 'launcher' has no option 'slrm'"},
      {"--launcher slurm sweep.launcher.gpu=1", "unknown key 'gpu' in 'sweep.launcher'"},
      {"--launcher slurm sweep.launcher.cores=0", "[/sweep/launcher/cores]"},
      {"--launcher kubernetes", "error[E0305]: "},
      {"--launcher slurm --slots 2",
       "error[E0501]: --slots divides this machine, but the trials run on a cluster"},
  };
  for (const auto& [more, message] : refused) {
    const Ended ended = sweep("s", more);
    EXPECT_NE(ended.exit, 0) << more;
    EXPECT_THAT(ended.err, HasSubstr(message)) << more;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "s")) << more;
  }
}

TEST_F(LaunchedSweep, MissingSlurmIsReported) {
  const Ended ended =
      run_shell("PATH=/nowhere " RETORT_BINARY_DIR
                "/bin/retort sweep classify data.root=photos seed=1,2 sweep.dir=s --launcher slurm "
                "sweep.launcher.memory=1GiB",
                folder_.path());
  EXPECT_EQ(ended.exit, 69);
  EXPECT_THAT(ended.err, HasSubstr("error[E0720]: sbatch is not installed here\n"));
  const Ended resumed = retort("sweep resume s --launcher slurm", folder_.path());
  EXPECT_EQ(resumed.exit, 64);
  EXPECT_THAT(resumed.err, HasSubstr("`retort sweep resume` does not take --launcher\n"));
}

}  // namespace
