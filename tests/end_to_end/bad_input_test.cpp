// End-to-end tests of bad input: each gives the exact message and the right exit code, and writes
// nothing.

#include <unistd.h>
#include <algorithm>

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/program.h"
#include "tests/support/shared_folder.h"

namespace {

namespace fs = std::filesystem;

using testing::HasSubstr;

class BadInput : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.is_made()) return;
    const Ended made =
        retort("data make image_folder --out photos --classes 3 --per-class 10 --size 32 -q",
               folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
    folder_.write("r.yaml",
                  "schema: 1\n"
                  "defaults: [{data: image_folder}, {model: tiny}, {memory: as_written}, {train: "
                  "from_scratch}, _self_]\n"
                  "data: {root: photos}\n"
                  "train: {epochs: 1, batch_size: 8}\n"
                  "evaluate: {kind: evaluate.classification}\n");
    folder_.keep();
  }
  Ended run(const std::string& overrides = "") {
    return retort("run r.yaml run.dir=run " + overrides, folder_.path());
  }
  bool wrote_anything() const {
    return std::filesystem::exists(folder_ / "run") || std::filesystem::exists(folder_ / "outputs");
  }
  std::filesystem::path first_image() const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "photos")) {
      if (entry.path().extension() == ".jpg") return entry.path();
    }
    return {};
  }
  SharedFolder folder_;
};

TEST_F(BadInput, UnknownKeyIsReportedWithItsLocation) {
  folder_.write("r.yaml", file_text(folder_ / "r.yaml") + "memory: {micro_bach: 4}\n");
  const Ended ended = run();
  EXPECT_EQ(ended.exit, 78);
  EXPECT_EQ(ended.err,
            "r.yaml:6:10: error[E0301]: unknown key 'micro_bach' [/memory/micro_bach]\n"
            "  6 | memory: {micro_bach: 4}\n"
            "    |          ^\n"
            "  help: did you mean 'micro_batch'?\n");
  EXPECT_FALSE(wrote_anything());
}

TEST_F(BadInput, PrecisionForAnUnknownModuleIsRejected) {
  folder_.write("r.yaml", file_text(folder_ / "r.yaml") +
                              "memory:\n  precision:\n    default: bf16\n    model.haed: fp32\n");
  const Ended ended = run();
  EXPECT_EQ(ended.exit, 78);
  EXPECT_THAT(
      ended.err,
      HasSubstr("r.yaml:9:17: error[E0301]: 'model.haed' does not match any module in the network "
                "of 'model' [/memory/precision/model.haed]\n"
                "  9 |     model.haed: fp32\n"
                "    |                 ^\n"
                "  help: did you mean 'model.head'?\n"));
}

TEST_F(BadInput, UnknownPrecisionIsRejected) {
  const Ended ended = run("'memory.precision={default:bf16,model.head:fp8}'");
  EXPECT_EQ(ended.exit, 78);
  EXPECT_THAT(ended.err, HasSubstr("error[E0304]"));
  EXPECT_THAT(ended.err, HasSubstr("[/memory/precision"));
  EXPECT_FALSE(wrote_anything());
}

TEST_F(BadInput, ActivationCheckpointingForAnUnknownModuleIsRejected) {
  folder_.write("r.yaml",
                file_text(folder_ / "r.yaml") +
                    "memory:\n  activation_checkpointing: [model.vision_model.encoder.layer.0]\n");
  const Ended ended = run();
  EXPECT_EQ(ended.exit, 78);
  EXPECT_THAT(ended.err,
              HasSubstr("r.yaml:7:30: error[E0301]: 'model.vision_model.encoder.layer.0' does not "
                        "match any module in the network of 'model' "
                        "[/memory/activation_checkpointing/0]\n"
                        "  7 |   activation_checkpointing: [model.vision_model.encoder.layer.0]\n"
                        "    |                              ^\n"
                        "  help: did you mean 'model.vision_model.encoder.layers.0'?\n"));
}

TEST_F(BadInput, ReportsAllMistakesAtOnce) {
  const Ended ended = run("train.epochs=ten train.batch_size=0 data.image_size=4");
  EXPECT_EQ(ended.exit, 78);
  EXPECT_THAT(ended.err, HasSubstr("expected an integer, got the string \"ten\" [/train/epochs]"));
  EXPECT_THAT(ended.err, HasSubstr("[/train/batch_size]"));
  EXPECT_THAT(ended.err, HasSubstr("[/data/image_size]"));
  EXPECT_FALSE(wrote_anything());
}

TEST_F(BadInput, MissingFolderIsReported) {
  const Ended ended = run("data.root=nowhere");
  EXPECT_EQ(ended.exit, 66);
  EXPECT_THAT(ended.err, HasSubstr("error[E0601]"));
  EXPECT_THAT(ended.err, HasSubstr("data.root=nowhere"));
  EXPECT_FALSE(wrote_anything());
}

TEST_F(BadInput, EmptyClassIsReported) {
  std::filesystem::create_directory(folder_ / "photos/nothing");
  const Ended ended = run();
  EXPECT_EQ(ended.exit, 65);
  EXPECT_THAT(ended.err, HasSubstr("error[E0602]"));
  EXPECT_THAT(ended.err, HasSubstr("nothing"));
  EXPECT_FALSE(wrote_anything());
}

TEST_F(BadInput, CorruptImageStopsTheRunAndIsReported) {
  const auto image = first_image();
  std::filesystem::resize_file(image, 200);
  const Ended ended =
      run("data.split.train=1.0 data.split.validation=0 data.split.test=0 ~evaluate");
  EXPECT_EQ(ended.exit, 65);
  EXPECT_THAT(ended.err, HasSubstr("error[E0604]"));
  EXPECT_THAT(ended.err, HasSubstr(image.filename().string()));
  EXPECT_THAT(file_text(folder_ / "run/summary.json"), HasSubstr("\"status\": \"failed\""));
}

TEST_F(BadInput, CorruptImagesCanBeSkipped) {
  std::filesystem::resize_file(first_image(), 200);
  const Ended ended = run("data.on_corrupt=skip");
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("skipped"));
}

TEST_F(BadInput, OversizedImageIsRejectedBasedOnItsHeader) {
  // The file ends after a PNG header for 20000 x 10000 pixels.
  folder_.write(
      "photos/huge/a.png",
      std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x4e\x20\0\0\x27\x10\x08\x02\0\0\0", 29) +
          std::string("\x26\xb3\x11\x80", 4));
  const Ended ended =
      run("data.split.train=1.0 data.split.validation=0 data.split.test=0 ~evaluate");
  EXPECT_EQ(ended.exit, 65);
  EXPECT_THAT(ended.err, HasSubstr("huge/a.png"));
}

TEST_F(BadInput, ImageWithoutPixelsIsRejected) {
  folder_.write("photos/flat/a.png",
                std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\0\0\0\0\0\x08\x02\0\0\0", 29) +
                    std::string("\0\0\0\0", 4));
  const Ended ended =
      run("data.split.train=1.0 data.split.validation=0 data.split.test=0 ~evaluate");
  EXPECT_EQ(ended.exit, 65);
  EXPECT_THAT(ended.err, HasSubstr("flat/a.png"));
}

TEST_F(BadInput, LabelOutsideTheModelsClassesIsRejected) {
  const Ended ended = run("model.num_classes=2");
  EXPECT_EQ(ended.exit, 65);
  EXPECT_THAT(ended.err, HasSubstr("error[E0606]"));
  EXPECT_THAT(ended.err, HasSubstr("model.num_classes=2"));
}

TEST_F(BadInput, AmbiguousPortIsRejected) {
  const Ended ended = run("'+more={kind: data.image_folder, root: photos}'");
  EXPECT_EQ(ended.exit, 78);
  EXPECT_THAT(ended.err, HasSubstr("error[E0402]"));
  EXPECT_FALSE(wrote_anything());
}

TEST_F(BadInput, CycleIsRejected) {
  const Ended ended =
      retort("graph r.yaml '+train.inputs={train: train.checkpoint}'", folder_.path());
  EXPECT_EQ(ended.exit, 78);
  EXPECT_THAT(ended.err, HasSubstr("error[E04"));
}

TEST_F(BadInput, FolderFromAnotherRunIsRejected) {
  ASSERT_EQ(run("--smoke").exit, 0);
  const std::string before = file_text(folder_ / "run/summary.json");
  const Ended ended = run("--smoke");
  EXPECT_EQ(ended.exit, 73);
  EXPECT_THAT(ended.err, HasSubstr("error[E0803]"));
  EXPECT_EQ(file_text(folder_ / "run/summary.json"), before);
}

TEST_F(BadInput, RejectedRunLeavesNoFolder) {
  const std::string run = "run r.yaml run.dir=run ";
  for (const char* mistake :
       {"memory.budget=1MiB", "train.epoch=3", "data.root=nowhere", "data.split.test=0",
        "train.warm_start=nowhere", "train.keep=best data.split.validation=0",
        "train.patience=3 data.split.validation=0", "model.patch_size=5", "device=cuda:7"}) {
    const Ended refused = retort(run + mistake, folder_.path());
    EXPECT_NE(refused.exit, 0) << mistake;
    EXPECT_EQ(refused.out, "") << mistake;
    EXPECT_FALSE(fs::exists(folder_ / "run")) << mistake;
    fs::remove_all(folder_ / "run");
  }
  EXPECT_EQ(retort(run, folder_.path()).exit, 0);
}

TEST_F(BadInput, FullDiskIsReported) {
  const std::string mount = "mkdir full && mount -t tmpfs -o size=300k tmpfs full";
  if (run_shell("unshare -rm sh -c '" + mount + "'", folder_.path()).exit != 0)
    GTEST_SKIP() << "no mount namespace here";
  std::filesystem::remove(folder_ / "full");
  const Ended ended =
      run_shell("unshare -rm sh -c '" + mount +
                    " && " RETORT_BINARY_DIR "/bin/retort run r.yaml run.dir=full/run'",
                folder_.path());
  EXPECT_EQ(ended.exit, 74) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("error[E0804]"));
}

TEST_F(BadInput, KilledWorkerIsRecordedInTheSummary) {
  // The worker's process group is killed as soon as the first epoch's metrics are recorded.
  const Ended ended =
      run_shell(RETORT_BINARY_DIR
                "/bin/retort run r.yaml run.dir=run train.epochs=10000 & retort=$!\n"
                "until [ -s run/metrics.jsonl ]; do kill -0 $retort || exit 99; sleep 0.05; done\n"
                "pkill -KILL -P $retort\n"
                "wait $retort",
                folder_.path());
  EXPECT_EQ(ended.exit, 1) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("error[E0704]"));
  EXPECT_THAT(file_text(folder_ / "run/summary.json"), HasSubstr("worker died"));
}

TEST_F(BadInput, InterruptedRunStopsItsWorkerAndRecordsIt) {
  const Ended ended =
      run_shell(RETORT_BINARY_DIR
                "/bin/retort run r.yaml run.dir=run train.epochs=10000 & retort=$!\n"
                "until [ -s run/metrics.jsonl ]; do kill -0 $retort || exit 99; sleep 0.05; done\n"
                "worker=$(pgrep -P $retort)\n"
                "kill -TERM $retort; wait $retort; code=$?\n"
                "kill -0 $worker 2>/dev/null && exit 98\n"
                "exit $code",
                folder_.path());
  EXPECT_EQ(ended.exit, 75) << ended.err;
  EXPECT_THAT(file_text(folder_ / "run/summary.json"), HasSubstr("\"status\": \"interrupted\""));
}

TEST_F(BadInput, KillingRetortStopsTheWorker) {
  const Ended ended = run_shell(
      RETORT_BINARY_DIR
      "/bin/retort run r.yaml run.dir=run train.epochs=10000 & retort=$!\n"
      "until [ -s run/metrics.jsonl ]; do kill -0 $retort || exit 99; sleep 0.05; done\n"
      "worker=$(pgrep -P $retort)\n"
      "kill -KILL $retort; wait $retort\n"
      "for i in $(seq 100); do kill -0 $worker 2>/dev/null || exit 0; sleep 0.05; done; exit 97",
      folder_.path());
  EXPECT_EQ(ended.exit, 0) << ended.err;
}

TEST_F(BadInput, InvalidEnvironmentVariablesAreRejected) {
  for (const std::string& verb : {"run r.yaml run.dir=run", "plan r.yaml"}) {
    const Ended ended = run_shell(
        "OMP_NUM_THREADS=abc ONEDNN_MAX_CPU_ISA=AVX3 " RETORT_BINARY_DIR "/bin/retort " + verb,
        folder_.path());
    EXPECT_EQ(ended.exit, 64) << verb;
    EXPECT_EQ(ended.out, "") << verb;
    EXPECT_THAT(ended.err,
                testing::StartsWith("error[E0501]: the environment variable OMP_NUM_THREADS is "
                                    "'abc', which is not a number of threads\n"
                                    "  help: unset it, or set it to a number from 1 to 1024\n"
                                    "error[E0501]: the environment variable ONEDNN_MAX_CPU_ISA is "
                                    "'AVX3', which is not an instruction set that oneDNN knows\n"
                                    "  help: unset it, or set it to DEFAULT, ALL, SSE41, "));
    EXPECT_FALSE(wrote_anything());
  }
}

TEST_F(BadInput, RecipeThreadsOverrideOmpNumThreadsWithAWarning) {
  const Ended ended = run_shell("OMP_NUM_THREADS=3 " RETORT_BINARY_DIR
                                "/bin/retort run r.yaml run.dir=run threads=1",
                                folder_.path());
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("override 2:1:9: warning[E0314]: OMP_NUM_THREADS=3 is ignored: "
                                   "tensor operations use 1 thread [/threads]\n"
                                   "  1 | threads=1\n"
                                   "    |         ^\n"
                                   "  help: to use that number, set threads=3\n"));
  EXPECT_THAT(file_text(folder_ / "run/.retort/environment.json"), HasSubstr("\"threads\": 1"));
}

TEST_F(BadInput, PlanAndRunAgreeOnEnvironmentVariables) {
  for (const std::string& variable :
       {"OMP_NUM_THREADS=3", "ONEDNN_MAX_CPU_ISA=sse41", "ONEDNN_MAX_CPU_ISA=AVX2"}) {
    const auto with = [&](const std::string& verb) {
      return run_shell(variable + " " RETORT_BINARY_DIR "/bin/retort " + verb, folder_.path());
    };
    const Ended plan = with("plan r.yaml"), run = with("run r.yaml run.dir=" + variable);
    ASSERT_EQ(plan.exit, 0) << plan.err;
    ASSERT_EQ(run.exit, 0) << run.err;
    const std::string shown =
        plan.out.substr(plan.out.find("needs "));  // "needs 27.9 MiB, 1.0 MiB of it held …"
    const std::string needs = shown.substr(0, std::min(shown.find(','), shown.find(" of ")));
    EXPECT_THAT(run.err, HasSubstr("train: " + needs + " according to the plan")) << variable;
    EXPECT_THAT(run.err,
                testing::ContainsRegex(
                    "train: memory peak: .* in tensors, ([0-9]?[0-9][.][0-9]|100[.]0)% of"))
        << variable;
    if (variable.starts_with("OMP"))
      EXPECT_THAT(plan.out, testing::StartsWith("train on cpu, 3 threads\n"));
  }
}

TEST_F(BadInput, WeightsTruncatedAfterPlanningAreReported) {
  ASSERT_EQ(retort("run r.yaml run.dir=donor ~evaluate -q", folder_.path()).exit, 0);
  ASSERT_EQ(retort("export donor --out base -q", folder_.path()).exit, 0);
  // A worker that finds truncated weights when it receives "go", after planning.
  const fs::path bin = folder_ / "installed/bin";
  fs::create_directories(bin);
  fs::copy_file(RETORT_BINARY_DIR "/bin/retort", bin / "retort");
  fs::create_directory_symlink(RETORT_BINARY_DIR "/share", folder_ / "installed/share");
  folder_.write(
      "installed/bin/retort-worker",
      "#!/bin/sh\n"
      "mkfifo requests; exec 9<&0\n"
      "while IFS= read -r line; do\n"
      "  case $line in '{\"go\"'*) truncate -s 5000 base/model.safetensors; : >cut ;; esac\n"
      "  printf '%s\\n' \"$line\"\n"
      "done <&9 >requests 2>/dev/null 3>&- &\n"
      "exec '" RETORT_BINARY_DIR "/bin/retort-worker' \"$@\" <requests 9<&-\n");
  fs::permissions(bin / "retort-worker", fs::perms::owner_all);
  const Ended ended = run_shell(
      "installed/bin/retort run finetune data=image_folder data.root=photos data.image_size=24 "
      "model=linear_probe model/backbone=local model.backbone.weights=base epochs=1 "
      "train.batch_size=8 run.dir=run",
      folder_.path());
  EXPECT_TRUE(fs::exists(folder_ / "cut")) << ended.err;
  EXPECT_EQ(ended.exit, 65) << ended.err;
  EXPECT_THAT(
      ended.err,
      HasSubstr(
          "error[E0620]: 'base/model.safetensors' is not a valid safetensors file: its header "));
  EXPECT_THAT(ended.err, HasSubstr(", but the file has 5000 [/model"));
}

}  // namespace
