// End-to-end tests of `retort run`: what it records, and that it can be repeated.

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/latest_weights.h"
#include "tests/support/program.h"
#include "tests/support/shared_folder.h"

namespace {

namespace fs = std::filesystem;

using testing::HasSubstr;
using testing::Not;

class Run : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.is_made()) return;
    const Ended made = retort(
        "data make image_folder --out photos --classes 3 --per-class 12 --size 32 --seed 5 -q",
        folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
    folder_.keep();
  }
  /// Trains for two epochs into `name`.
  Ended train(const std::string& name, const std::string& overrides = "") {
    return retort(
        "run classify data.root=photos data.image_size=24 epochs=2 batch_size=8 run.dir=" + name +
            ' ' + overrides,
        folder_.path());
  }
  std::string weights(const std::string& run) const { return latest_weights(folder_ / run); }
  SharedFolder folder_;
};

TEST_F(Run, LeavesACompleteRecord) {
  const Ended ended = train("run");
  ASSERT_EQ(ended.exit, 0) << ended.err;
  for (const char* file : {".retort/config.yaml", ".retort/overrides.yaml", ".retort/recipe.yaml",
                           ".retort/environment.json", "metrics.jsonl", "log.txt", "summary.json",
                           "nodes/train/checkpoints/latest", "nodes/evaluate/predictions.csv",
                           "nodes/evaluate/metrics.json"}) {
    EXPECT_GT(std::filesystem::file_size(folder_ / ("run/" + std::string(file))), 0u) << file;
  }
  EXPECT_THAT(file_text(folder_ / "run/.retort/overrides.yaml"), HasSubstr("- epochs=2\n"));
  const auto summary = nlohmann::json::parse(file_text(folder_ / "run/summary.json"));
  EXPECT_EQ(summary["status"], "finished");
  EXPECT_EQ(summary["exit"], 0);
  EXPECT_GT(summary["nodes"].size(), 3u);
}

TEST_F(Run, AutoWithoutAGpuSelectsTheCpuAndReportsItOnce) {
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  const Ended ended = train("run",
                            "device=auto device.wait_for_gpu=true train.epochs=1 "
                            "'train.schedule=replace({kind: exponential, gamma: 0.9})'");
  const Ended named = train("other", "device=cuda");
  const Ended fallen_back = train("third", "device=cuda device.fallback=[cpu] --smoke");
  unsetenv("CUDA_VISIBLE_DEVICES");
  ASSERT_EQ(ended.exit, 0) << ended.err;
  const std::size_t said = ended.err.find("\ndevice: cpu, since ");
  ASSERT_NE(said, ended.err.npos) << ended.err;
  EXPECT_THAT(ended.err.substr(said + 2), Not(HasSubstr("device: ")));
  const auto environment =
      nlohmann::json::parse(file_text(folder_ / "run/.retort/environment.json"));
  EXPECT_EQ(environment["device"], "cpu");
  EXPECT_EQ(environment["device_choice"]["asked"], "auto");
  EXPECT_EQ(retort("resume run train.epochs=2 -q", folder_.path()).exit, 0);  // on the CPU again
  EXPECT_EQ(named.exit, 69);
  EXPECT_THAT(named.err, HasSubstr("error[E0703]: device 'cuda' is not available: "));
  EXPECT_FALSE(fs::exists(folder_ / "other"));
  EXPECT_EQ(fallen_back.exit, 0) << fallen_back.err;
  EXPECT_THAT(fallen_back.err, HasSubstr(" (device.fallback)\n"));
}

TEST_F(Run, SameSeedGivesTheSameBitsWithAnyLoader) {
  ASSERT_EQ(train("a").exit, 0);
  ASSERT_EQ(train("b", "data.loader.workers=0 data.cache_mib=0").exit, 0);
  ASSERT_EQ(train("c", "data.loader.workers=8 data.loader.prefetch=1").exit, 0);
  ASSERT_EQ(train("d", "seed=43").exit, 0);
  EXPECT_TRUE(weights("a") == weights("b"));
  EXPECT_TRUE(weights("a") == weights("c"));
  EXPECT_FALSE(weights("a") == weights("d"));
  EXPECT_EQ(file_text(folder_ / "a/nodes/evaluate/predictions.csv"),
            file_text(folder_ / "c/nodes/evaluate/predictions.csv"));
}

TEST_F(Run, RecordedRecipeGivesTheSameRun) {
  ASSERT_EQ(train("a", "lr=2e-3").exit, 0);
  const Ended again = retort("run a/.retort/recipe.yaml run.dir=b", folder_.path());
  ASSERT_EQ(again.exit, 0) << again.err;
  EXPECT_TRUE(weights("a") == weights("b"));
}

TEST_F(Run, RecordCanBeUsedFromAnyFolder) {
  ASSERT_EQ(train("a").exit, 0);
  const fs::path elsewhere = folder_ / "elsewhere";
  fs::create_directory(elsewhere);
  const std::string run = (folder_ / "a").string();
  // The data stays in place, and the run gets its own folder here.
  const Ended again = retort("run " + run + "/.retort/recipe.yaml", elsewhere);
  ASSERT_EQ(again.exit, 0) << again.err;
  EXPECT_THAT(again.out, testing::StartsWith("outputs/"));
  EXPECT_EQ(file_text(elsewhere / again.out.substr(0, again.out.size() - 1) /
                      "nodes/evaluate/predictions.csv"),
            file_text(folder_ / "a/nodes/evaluate/predictions.csv"));
  EXPECT_EQ(retort("validate ../a/.retort/recipe.yaml", elsewhere).exit, 0);
  EXPECT_EQ(retort("evaluate ../a run.dir=evaluated", elsewhere).exit, 0);
  EXPECT_TRUE(fs::exists(elsewhere / "evaluated"));
  fs::copy(folder_ / "photos", elsewhere / "pictures", fs::copy_options::recursive);
  const Ended typed_here = retort(
      "evaluate ../a data.root=pictures evaluate.allow_trained=true run.dir=here", elsewhere);
  EXPECT_EQ(typed_here.exit, 0) << typed_here.err;
  const Ended predicted = retort("predict ../a pictures -q", elsewhere);
  EXPECT_EQ(predicted.exit, 0) << predicted.err;
  fs::remove(folder_ / "a/nodes/evaluate/predictions.csv");
  EXPECT_EQ(retort("resume ../a", elsewhere).exit, 0);
  EXPECT_TRUE(fs::exists(folder_ / "a/nodes/evaluate/predictions.csv"));
  EXPECT_EQ(retort("evaluate " + again.out.substr(0, again.out.size() - 1) + " run.dir=of_a_copy",
                   elsewhere)
                .exit,
            0);
}

TEST_F(Run, MicroBatchesGiveTheSameLossUpToRounding) {
  ASSERT_EQ(train("a").exit, 0);
  ASSERT_EQ(train("b", "memory.micro_batch=3").exit, 0);
  const auto loss = [&](const std::string& run) {
    return nlohmann::json::parse(file_text(
        folder_ / (run + "/summary.json")))["metrics"]["train"]["train/loss"]["value"]
        .get<double>();
  };
  EXPECT_NEAR(loss("a"), loss("b"), 1e-3);
}

TEST_F(Run, ActivationCheckpointingGivesTheSameBits) {
  ASSERT_EQ(train("a", "model.drop_path=0.2").exit, 0);
  ASSERT_EQ(train("b", "model.drop_path=0.2 memory.activation_checkpointing=block").exit, 0);
  ASSERT_EQ(train("c",
                  "model.drop_path=0.2 "
                  "'memory.activation_checkpointing=[\"model.vision_model.encoder.layers.*.mlp\"]'")
                .exit,
            0);
  EXPECT_TRUE(weights("a") == weights("b"));
  EXPECT_TRUE(weights("a") == weights("c"));
  const auto plan = [&](const std::string& run) {
    return nlohmann::json::parse(file_text(latest_checkpoint(folder_ / run) /
                                           "state.json"))["plan"]["activation_checkpointing"];
  };
  EXPECT_EQ(plan("a"), "none");
  EXPECT_EQ(plan("b"), "block");
  EXPECT_EQ(plan("c"), nlohmann::json::parse(R"(["vision_model.encoder.layers.*.mlp"])"));
}

TEST_F(Run, DefaultFolderIsDatedAndUnique) {
  for (int i = 0; i < 2; ++i) {
    const Ended ended =
        retort("run classify data.root=photos data.image_size=24 --smoke", folder_.path());
    ASSERT_EQ(ended.exit, 0) << ended.err;
  }
  int runs = 0;
  for (const auto& day : std::filesystem::directory_iterator(folder_ / "outputs")) {
    for (const auto& time : std::filesystem::directory_iterator(day))
      runs += std::filesystem::exists(time.path() / "summary.json");
  }
  EXPECT_EQ(runs, 2);
}

TEST_F(Run, SecretsFromTheEnvironmentStayOutOfEveryRecord) {
  const Ended ended =
      run_shell("MY_TOKEN=geheim " RETORT_BINARY_DIR
                "/bin/retort run classify data.root=photos data.image_size=24 --smoke run.dir=run "
                "'+vars.token=${oc.env:MY_TOKEN}'",
                folder_.path());
  ASSERT_EQ(ended.exit, 0) << ended.err;
  EXPECT_EQ(run_shell("grep -rl geheim run", folder_.path()).out, "");
  EXPECT_THAT(file_text(folder_ / "run/.retort/recipe.yaml"), HasSubstr("${oc.env:MY_TOKEN}"));
}

TEST_F(Run, DebugLinesAreLoggedAndPrintedOnlyWithV) {
  const std::string run =
      "run classify data.root=photos data.image_size=24 device=cpu --smoke --only train ";
  const auto lines = {"kernels: ",   "allocator: ",           "threads: ",
                      "device: cpu", "data: opened 'photos'", "train: numerics: "};
  const Ended quiet = retort(run + "run.dir=a --log-level debug", folder_.path());
  ASSERT_EQ(quiet.exit, 0) << quiet.err;
  const Ended verbose = run_shell(
      "RETORT_LOG=debug " RETORT_BINARY_DIR "/bin/retort " + run + "run.dir=b -v", folder_.path());
  ASSERT_EQ(verbose.exit, 0) << verbose.err;
  const Ended plain = run_shell(
      "RETORT_LOG=debug " RETORT_BINARY_DIR "/bin/retort " + run + "run.dir=c --log-level info -v",
      folder_.path());
  ASSERT_EQ(plain.exit, 0) << plain.err;
  for (const char* line : lines) {
    EXPECT_THAT(file_text(folder_ / "a/log.txt"), HasSubstr(std::string("  debug  ") + line));
    EXPECT_THAT(file_text(folder_ / "b/log.txt"), HasSubstr(std::string("  debug  ") + line));
    EXPECT_THAT(file_text(folder_ / "c/log.txt"), Not(HasSubstr(line)));
    EXPECT_THAT(quiet.err, Not(HasSubstr(line)));
    EXPECT_THAT(verbose.err, HasSubstr(line));
    EXPECT_THAT(plain.err, Not(HasSubstr(line)));
  }
}

TEST_F(Run, UnknownLogLevelInTheEnvironmentIsRejected) {
  const Ended ended = run_shell("RETORT_LOG=loud " RETORT_BINARY_DIR
                                "/bin/retort run classify data.root=photos run.dir=run",
                                folder_.path());
  EXPECT_EQ(ended.exit, 64);
  EXPECT_THAT(ended.err, HasSubstr("error[E0501]: RETORT_LOG is 'loud', which is not a log level"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

TEST_F(Run, TypedSecretsStayOutOfEveryRecord) {
  const Ended ended = retort(
      "run classify data.root=photos data.image_size=24 --smoke run.dir=run "
      "+vars.api_key=abc-typed +vars.column_keys=[abc-typed] +vars.note=kept-note",
      folder_.path());
  ASSERT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(file_text(folder_ / "run/.retort/recipe.yaml"), HasSubstr("kept-note"));
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "run")) {
    if (entry.is_regular_file())
      EXPECT_THAT(file_text(entry.path()), Not(HasSubstr("abc-typed"))) << entry.path();
  }
}

TEST_F(Run, OnlyRunsNoOtherNodes) {
  const Ended ended =
      retort("run classify data.root=photos data.image_size=24 --smoke --only train run.dir=run",
             folder_.path());
  ASSERT_EQ(ended.exit, 0) << ended.err;
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run/nodes/train"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run/nodes/evaluate"));
}

TEST(Init, WritesAValidRecipeWithoutOverwriting) {
  const TemporaryFolder folder;
  EXPECT_EQ(retort("init mine.yaml", folder.path()).exit, 0);
  std::filesystem::create_directory(folder / "photos");
  const Ended validated = retort("validate mine.yaml data.root=photos", folder.path());
  EXPECT_EQ(validated.exit, 0) << validated.err;
  const std::string before = file_text(folder / "mine.yaml");
  EXPECT_THAT(before, testing::StartsWith("# yaml-language-server: $schema="));
  const Ended again = retort("init mine.yaml", folder.path());
  EXPECT_EQ(again.exit, 73);
  EXPECT_THAT(again.err, HasSubstr("error[E0801]: cannot create 'mine.yaml': File exists"));
  EXPECT_EQ(file_text(folder / "mine.yaml"), before);
}

TEST(DataMake, SameSeedGivesTheSameImagesWithoutOverwriting) {
  const TemporaryFolder folder;
  const std::string make =
      "data make image_folder --classes 3 --per-class 2 --size 32 -q --seed 9 --out ";
  EXPECT_EQ(retort(make + "a", folder.path()).exit, 0);
  EXPECT_EQ(retort(make + "b", folder.path()).exit, 0);
  EXPECT_EQ(run_shell("diff -r a b", folder.path()).exit, 0);
  EXPECT_EQ(retort(make + "a", folder.path()).exit, 73);
}

TEST(Verbs, PrintJsonOnRequest) {
  const TemporaryFolder folder;
  for (const char* line : {"validate quickstart", "graph quickstart", "config show quickstart",
                           "stages", "schema train.supervised", "doctor"}) {
    const Ended ended = retort(std::string(line) + " --json", folder.path());
    EXPECT_EQ(ended.exit, 0) << line << ended.err;
    EXPECT_TRUE(nlohmann::json::parse(ended.out).contains("result")) << line << '\n' << ended.out;
  }
  const Ended wrong = retort("validate quickstart --json train.epoch=1", folder.path());
  EXPECT_EQ(wrong.exit, 78);
  EXPECT_EQ(nlohmann::json::parse(wrong.out)["errors"][0]["code"], "E0203");
}

TEST(Verbs, VersionNamesLibTorchAndCuda) {
  const TemporaryFolder folder;
  const Ended ended = retort("--version", folder.path());
  EXPECT_EQ(ended.exit, 0);
  EXPECT_THAT(ended.out,
              testing::AllOf(HasSubstr("retort 0.1.0"),
                             HasSubstr("LibTorch " RETORT_LIBTORCH_VERSION), HasSubstr("CUDA")));
}

TEST(Verbs, DoNotWriteColorsToAFile) {
  const TemporaryFolder folder;
  EXPECT_EQ(retort("validate nothing", folder.path()).err.find('\x1b'), std::string::npos);
}

}  // namespace
