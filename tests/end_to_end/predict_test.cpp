// End-to-end tests of evaluating and predicting with a trained run.

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"
#include "tests/support/shared_folder.h"

namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class CommandsOnATrainedRun : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.is_made()) return;
    const Ended made = retort(
        "data make image_folder --out photos --classes 3 --per-class 12 --size 32 --seed 5 -q",
        folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
    const Ended ran = retort(
        "run classify data.root=photos data.image_size=24 data.split.validation=0.2 "
        "data.split.train=0.6 epochs=2 batch_size=8 train.checkpoint.keep_best=2 "
        "train.checkpoint.keep_last=2 run.dir=run",
        folder_.path());
    ASSERT_EQ(ran.exit, 0) << ran.err;
    folder_.keep();
  }
  nlohmann::json json(const std::string& file) const {
    return nlohmann::json::parse(file_text(folder_ / file));
  }
  std::string metric(const std::string& run, const std::string& name) const {
    return json(run + "/summary.json")["metrics"]["evaluate"]["evaluate/" + name].dump();
  }
  /// Every file below `run`, with its contents.
  std::map<std::string, std::string> all_of(const std::string& run) const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / run)) {
      if (entry.is_regular_file()) files[entry.path().string()] = file_text(entry.path());
    }
    return files;
  }
  /// The first two columns of a CSV file without its header: file → class.
  static std::map<std::string, std::string> first_classes(const std::string& csv) {
    std::map<std::string, std::string> result;
    std::istringstream lines(csv);
    std::string line;
    for (std::getline(lines, line); std::getline(lines, line);) {
      const std::size_t comma = line.find(',');
      result[line.substr(0, comma)] = line.substr(comma + 1, line.find(',', comma + 1) - comma - 1);
    }
    return result;
  }
  SharedFolder folder_;
};

TEST_F(CommandsOnATrainedRun, SecondEvaluationMatchesAndLeavesTheRunUnchanged) {
  const auto before = all_of("run");
  const Ended ended = retort("evaluate run run.dir=again", folder_.path());
  ASSERT_EQ(ended.exit, 0) << ended.err;
  EXPECT_EQ(ended.out, "again\n");
  EXPECT_EQ(metric("again", "top1"), metric("run", "top1"));
  EXPECT_EQ(metric("again", "log_loss"), metric("run", "log_loss"));
  EXPECT_EQ(file_text(folder_ / "again/nodes/evaluate/predictions.csv"),
            file_text(folder_ / "run/nodes/evaluate/predictions.csv"));
  EXPECT_TRUE(all_of("run") == before);
  EXPECT_EQ(json("again/.retort/source.json")["run"], (folder_ / "run").string());
  EXPECT_THAT(json("again/nodes/train/checkpoint.json")["checkpoint"],
              HasSubstr("run/nodes/train/checkpoints/step-"));
  EXPECT_FALSE(fs::exists(folder_ / "again/nodes/train/checkpoints"));

  const Ended resumed = retort("resume again", folder_.path());
  EXPECT_EQ(resumed.exit, 66);
  EXPECT_THAT(resumed.err, HasSubstr("error[E0806]: 'again' is an evaluation of '"));
}

TEST_F(CommandsOnATrainedRun, EvaluationAcceptsOtherDataMetricsAndCheckpoints) {
  ASSERT_EQ(
      retort("data make image_folder --out others --classes 3 --per-class 20 --size 40 --seed 6 -q",
             folder_.path())
          .exit,
      0);
  const Ended ended = retort(
      "evaluate run data.root=others data.split.train=0.4 data.split.test=0.4 "
      "evaluate.batch_size=5 evaluate.top_k=[1,2] --checkpoint latest",
      folder_.path());
  ASSERT_EQ(ended.exit, 0) << ended.err;
  const std::string folder = ended.out.substr(0, ended.out.size() - 1);
  EXPECT_THAT(folder, testing::StartsWith("outputs/"));
  EXPECT_EQ(json(folder + "/nodes/evaluate/metrics.json")["step"], 6);  // two epochs of three steps
  EXPECT_THAT(metric(folder, "top2"), HasSubstr("value"));
  EXPECT_THAT(metric(folder, "samples"), HasSubstr("24"));
  EXPECT_THAT(file_text(folder_ / (folder + "/.retort/overrides.yaml")),
              HasSubstr("data.root=others"));
}

TEST_F(CommandsOnATrainedRun, AnotherFolderIsEvaluatedInFullByDefault) {
  ASSERT_EQ(
      retort("data make image_folder --out others --classes 3 --per-class 10 --size 32 --seed 6 -q",
             folder_.path())
          .exit,
      0);
  const auto samples = [&](const std::string& overrides, const std::string& said) {
    const Ended ended = retort("evaluate run " + overrides, folder_.path());
    EXPECT_EQ(ended.exit, 0) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr(said));
    const std::string folder = ended.out.substr(0, ended.out.find('\n'));
    return json(folder + "/nodes/evaluate/metrics.json").at("samples").get<int>();
  };
  EXPECT_EQ(samples("data.root=others run.dir=all", "data: all of 'others' is evaluated"), 30);
  EXPECT_EQ(samples("data.root=others data.split.test=0.2 run.dir=part", "data.split.test=0.2"), 6);
  EXPECT_EQ(
      samples("data.root=others 'data.split={train: 0, validation: 0, test: 1}' run.dir=whole",
              "data: the test part of 'others' is evaluated: data.split.test=1"),
      30);
  EXPECT_EQ(samples("run.dir=own", "data: the test part of 'photos' is evaluated"), 6);
  EXPECT_THAT(file_text(folder_ / "all/.retort/overrides.yaml"), HasSubstr("data.split={train: 0"));
}

TEST_F(CommandsOnATrainedRun, EvaluationRejectsIncompatibleOptions) {
  const Ended model = retort("evaluate run model.hidden_size=64 train.epochs=9", folder_.path());
  EXPECT_EQ(model.exit, 78);
  EXPECT_THAT(model.err,
              testing::AllOf(
                  HasSubstr("error[E0809]: 'model.hidden_size' was 128 and is now 64: the trained "
                            "weights are incompatible with this change [/model/hidden_size]"),
                  HasSubstr("error[E0809]: 'train.epochs' was 2 and is now 9")));
  const Ended size = retort("evaluate run data.image_size=36", folder_.path());
  EXPECT_EQ(size.exit, 78);
  EXPECT_THAT(size.err,
              HasSubstr("'image' is [3,36,36] in the test set, but was [3,24,24] in training"));
}

TEST_F(CommandsOnATrainedRun, DamagedWeightsAreRejectedAndResumeRecreatesThem) {
  const std::string checkpoints = "run/nodes/train/checkpoints/";
  const std::string best = file_text(folder_ / (checkpoints + "best"));
  const fs::path weights =
      folder_ / (checkpoints + best.substr(0, best.size() - 1) + "/model.safetensors");
  const std::string before = file_text(weights);
  for (const char* verb :
       {"evaluate run run.dir=again", "predict run photos", "export run --merged --out exported",
        "predict run photos --checkpoint best",
        "run classify data.root=photos data.image_size=24 train.warm_start=run run.dir=warm -q"}) {
    fs::resize_file(weights, fs::file_size(weights) - 1);
    const Ended refused = retort(verb, folder_.path());
    EXPECT_EQ(refused.exit, 65) << verb;
    EXPECT_EQ(refused.out, "") << verb;
    EXPECT_THAT(refused.err, HasSubstr("error[E0620]: the checkpoint '"));
    EXPECT_THAT(refused.err, HasSubstr(weights.parent_path().filename().string() +
                                       "' is damaged: model.safetensors has "));
    EXPECT_THAT(refused.err, HasSubstr("`retort resume " + (folder_ / "run").string() +
                                       "` recreates it; intact: "));
    std::ofstream(weights, std::ios::binary) << before;
  }
  fs::resize_file(weights, fs::file_size(weights) - 1);
  const Ended resumed = retort("resume run", folder_.path());
  EXPECT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("is damaged: model.safetensors has "));
  EXPECT_TRUE(file_text(weights) == before);
  EXPECT_EQ(retort("predict run photos -q", folder_.path()).exit, 0);
}

TEST_F(CommandsOnATrainedRun, ResumeRecreatesMissingFilesOfAFinishedRun) {
  const fs::path nodes = folder_ / "run/nodes";
  const auto before = all_of("run/nodes");
  for (const char* gone : {"train/checkpoints", "train", "evaluate/predictions.csv", "evaluate",
                           "train/training_metrics.json"}) {
    SCOPED_TRACE(gone);
    ASSERT_GT(fs::remove_all(nodes / gone), 0u);
    const Ended resumed = retort("resume run", folder_.path());
    EXPECT_EQ(resumed.exit, 0) << resumed.err;
    EXPECT_THAT(resumed.err, testing::Not(HasSubstr("nothing to resume")));
    const auto after = all_of("run/nodes");
    for (const auto& [file, text] : before) {
      EXPECT_TRUE(after.contains(file)) << file;
      const std::string name = fs::path(file).filename();
      if (name == "model.safetensors" || name == "predictions.csv")
        EXPECT_TRUE(after.at(file) == text) << file;
    }
    EXPECT_THAT(retort("resume run", folder_.path()).err, HasSubstr("there is nothing to resume"));
  }
}

TEST_F(CommandsOnATrainedRun, CopiedRunMatchesTheEvaluationWithoutItsData) {
  fs::rename(folder_ / "run", folder_ / "copy");
  fs::rename(folder_ / "photos", folder_ / "pictures");
  const auto before = all_of("copy");
  const Ended ended = retort("predict copy pictures --top 2", folder_.path());
  ASSERT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(ended.out,
              testing::StartsWith("file,class_1,probability_1,class_2,probability_2\npictures/"));
  const auto predicted = first_classes(ended.out);
  EXPECT_EQ(predicted.size(), 36u);
  std::istringstream evaluated(file_text(folder_ / "copy/nodes/evaluate/predictions.csv"));
  std::string line;
  int compared = 0;
  for (std::getline(evaluated, line); std::getline(evaluated, line); ++compared) {
    std::istringstream fields(line);
    std::string name, label, wanted;
    std::getline(std::getline(std::getline(fields, name, ','), label, ','), wanted, ',');
    EXPECT_EQ(predicted.at("pictures/" + name), wanted) << name;
  }
  EXPECT_GE(compared, 6);
  EXPECT_TRUE(all_of("copy") == before);
}

TEST_F(CommandsOnATrainedRun, PredictionsAreWrittenToAFileOrAsJsonLines) {
  const Ended as_json =
      retort("predict run photos --json --batch-size 7 device=cpu", folder_.path());
  ASSERT_EQ(as_json.exit, 0) << as_json.err;
  std::istringstream lines(as_json.out);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto one = nlohmann::json::parse(line);
    if (one.contains("schema")) {
      EXPECT_EQ(one["result"]["images"], count);
      break;
    }
    double sum = 0;
    for (const auto& item : one["classes"]) sum += item["probability"].get<double>();
    EXPECT_NEAR(sum, 1, 1e-9);
  }
  EXPECT_EQ(count, 36);
  const Ended to_file = retort("predict run photos --out p.csv", folder_.path());
  EXPECT_EQ(to_file.exit, 0) << to_file.err;
  EXPECT_EQ(to_file.out, "");
  EXPECT_EQ(first_classes(file_text(folder_ / "p.csv")).size(), 36u);
}

TEST_F(CommandsOnATrainedRun, UnreadableImagesStopPredictionOrAreSkipped) {
  std::ofstream(folder_ / "photos/aaa.jpg") << "broken";
  std::ofstream(folder_ / "p.csv") << "as it was";
  const Ended stopped = retort("predict run photos --out p.csv", folder_.path());
  EXPECT_EQ(stopped.exit, 65);
  EXPECT_THAT(stopped.err,
              HasSubstr("error[E0609]: image 'photos/aaa.jpg': it is not JPEG, PNG or WebP\n"
                        "  help: add --skip-corrupt to leave out unreadable images\n"));
  EXPECT_EQ(file_text(folder_ / "p.csv"), "as it was");
  const Ended skipped = retort("predict run photos --out p.csv --skip-corrupt", folder_.path());
  EXPECT_EQ(skipped.exit, 65);
  EXPECT_THAT(skipped.err,
              testing::AllOf(
                  HasSubstr("error[E0609]: image 'photos/aaa.jpg': it is not JPEG, PNG or WebP\n"),
                  HasSubstr("1 of 37 images could not be read\n")));
  EXPECT_EQ(first_classes(file_text(folder_ / "p.csv")).size(), 36u);
}

TEST_F(CommandsOnATrainedRun, IgnoredFilesAreReportedByEveryVerb) {
  std::ofstream(folder_ / "photos/labels.csv") << "x";
  fs::create_directory(folder_ / "photos/.trash");
  const std::string told = "1 file ignored: 1 .csv; 1 hidden folder\n";
  const std::string options =
      " classify data.root=photos data.image_size=24 epochs=1 run.dir=other";
  for (const char* verb : {"validate", "plan", "run"}) {
    const Ended ended = retort(verb + options, folder_.path());
    ASSERT_EQ(ended.exit, 0) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr("data: " + told)) << verb;
  }
  EXPECT_THAT(retort("predict run photos", folder_.path()).err, HasSubstr("predict: " + told));
}

TEST_F(CommandsOnATrainedRun, ImagesInOtherFormatsAreReportedByEveryVerb) {
  const fs::path first = (*fs::directory_iterator(folder_ / "photos")).path();
  for (const char* name : {"a.GIF", "b.gif", "c.bmp", "d.TIFF"})
    std::ofstream(first / name) << "GIF89a of sorts";
  const std::string counts = "in an unsupported format: 2 .gif, 1 .bmp, 1 .tiff";
  const std::string options =
      " classify data.root=photos data.image_size=24 epochs=1 run.dir=other";
  for (const char* verb : {"validate", "plan", "run"}) {
    const Ended ended = retort(verb + options, folder_.path());
    EXPECT_EQ(ended.exit, 65) << verb;
    EXPECT_THAT(ended.err,
                HasSubstr("error[E0609]: 'photos' contains 4 images " + counts + " [/data/root]"))
        << verb;
  }
  EXPECT_FALSE(fs::exists(folder_ / "other"));
  const Ended predicted = retort("predict run photos", folder_.path());
  EXPECT_EQ(predicted.exit, 65);
  EXPECT_THAT(
      predicted.err,
      HasSubstr(
          "4 files have the names of images in an unsupported format: 2 .gif, 1 .bmp, 1 .tiff\n"));
}

TEST_F(CommandsOnATrainedRun, OnCorruptAppliesToFilesThatAreNotImages) {
  const fs::path first = (*fs::directory_iterator(folder_ / "photos")).path();
  std::ofstream(first / "0.jpg") << "GIF89a of sorts";
  const std::string options =
      "run classify data.root=photos data.split.train=1 data.split.validation=0 data.split.test=0 "
      "data.image_size=24 epochs=1 '~evaluate' run.dir=other data.on_corrupt=";
  const Ended stopped = retort(options + "stop", folder_.path());
  EXPECT_EQ(stopped.exit, 65);
  EXPECT_THAT(stopped.err, HasSubstr("it is a GIF image, an unsupported format [/data/root]"));
  fs::remove_all(folder_ / "other");
  const Ended skipped = retort(options + "skip", folder_.path());
  EXPECT_EQ(skipped.exit, 0) << skipped.err;
}

TEST_F(CommandsOnATrainedRun, FolderWithSomeOfTheClassesCanBeEvaluated) {
  const std::string first = (*fs::directory_iterator(folder_ / "photos")).path().filename();
  fs::create_directory(folder_ / "some");
  fs::copy(folder_ / "photos" / first, folder_ / "some" / first);
  const Ended some = retort("evaluate run data.root=some evaluate.allow_trained=true run.dir=again",
                            folder_.path());
  EXPECT_EQ(some.exit, 0) << some.err;
  EXPECT_THAT(some.err, HasSubstr("evaluate: 2 of 3 classes are absent from the test set"));
  EXPECT_THAT(metric("again", "samples"), HasSubstr("\"value\":12.0"));
  EXPECT_EQ(metric("again", "macro_recall"), metric("again", "top1"));
  fs::rename(folder_ / "some" / first, folder_ / "some" / (first + "s"));
  const Ended other = retort("evaluate run data.root=some", folder_.path());
  EXPECT_EQ(other.exit, 65);
  EXPECT_THAT(other.err, HasSubstr("the network was not trained on: '" + first + "s'"));
  EXPECT_THAT(other.err, HasSubstr("did you mean '" + first + "' instead of '" + first + "s'?"));
}

TEST_F(CommandsOnATrainedRun, WrongInputIsReportedBeforeAnythingIsWritten) {
  fs::create_directory(folder_ / "empty");
  const Ended empty = retort("predict run empty none.jpg --out p.csv", folder_.path());
  EXPECT_EQ(empty.exit, 65);
  EXPECT_THAT(empty.err,
              testing::AllOf(HasSubstr("error[E0608]: there are no images in the folder 'empty'"),
                             HasSubstr("error[E0603]: there is no file or folder 'none.jpg'")));
  EXPECT_FALSE(fs::exists(folder_ / "p.csv"));
  EXPECT_FALSE(fs::exists(folder_ / "p.csv.part"));
  fs::remove_all(folder_ / "run/nodes/train/checkpoints");
  for (const char* verb : {"evaluate run", "predict run photos"}) {
    const Ended none = retort(verb, folder_.path());
    EXPECT_EQ(none.exit, 66);
    EXPECT_EQ(none.err,
              "error[E0808]: there is no checkpoint of 'train' in the run 'run'\n"
              "  help: train it first with `retort resume run`\n");
  }
}

}  // namespace
