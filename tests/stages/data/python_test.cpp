#include <array>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/disk/digest.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/stage/stage.h"
#include "stages/artifact/grouped_samples.h"
#include "stages/artifact/loader.h"
#include "stages/python/python_host.h"
#include "stages/stages.h"
#include "tests/support/recording_context.h"
#include "tests/support/refused.h"
#include "tests/support/stage_of.h"
#include "tests/support/temporary_folder.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// The Python on PATH; these datasets need no packages.
std::string interpreter() {
  std::string path;
  FILE* const said = popen("python3 -c 'import sys; print(sys.executable, end=\"\")'", "r");
  std::array<char, 4096> piece;
  while (said && fgets(piece.data(), piece.size(), said)) path += piece.data();
  if (said) pclose(said);
  return path;
}

/// Returns the SHA-256 of trusted files by path.
Json& trusted_files() {
  static Json files = Json::object();
  return files;
}

/// Stands in for the Python that hosts a worker.
int answer(const char* request) {
  static const std::string program = interpreter();
  EXPECT_EQ(Json::parse(request).at("do"), "reader");
  const Json reply = {{"interpreter", program},
                      {"script", RETORT_SOURCE_DIR "/stages/python/retort_host/reader.py"},
                      {"allowed", {{"files", trusted_files()}, {"folders", Json::array()}}}};
  reply_to_python_call(reply.dump().c_str());
  return 0;
}

constexpr const char* kNumbers = R"py(
import os, random, signal, sys, threading

class Numbers:
    classes = ["even", "odd", "third"]

    def __init__(self, size):
        self.targets = [index % 3 for index in range(size)]

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, index):
        trouble(index)
        return {"x": random.random(), "index": index, "label": self.targets[index]}

def make(size=12, part=""):
    return Numbers(size)

def trouble(index):
    pass
)py";

class PythonDataTest : public testing::Test {
 protected:
  PythonDataTest() {
    set_python(answer);
    write("");
  }
  ~PythonDataTest() override { set_python(nullptr); }

  void write(const std::string& more) {
    const std::string text = kNumbers + more;
    const auto file = std::filesystem::canonical(folder_.write("my_data.py", text));
    trusted_files() = {{file.string(), runner::sha256(text)}};
    entry_ = file.string() + ":make";
  }
  /// Returns the stage's outputs for these options.
  runner::Outputs outputs(Json options) {
    options["entry"] = entry_;
    return stage_of(kDataPython, options)->run(runner::Inputs({}), context_);
  }
  std::shared_ptr<const Dataset> train(Json options) {
    options["split"] = {{"train", 1}, {"test", 0}};
    return std::static_pointer_cast<const Dataset>(outputs(std::move(options)).at("train"));
  }

  const TemporaryFolder folder_;
  std::string entry_;
  RecordingContext context_;
};

std::shared_ptr<const Dataset> part(const runner::Outputs& outputs, const std::string& name) {
  return std::static_pointer_cast<const Dataset>(outputs.at(name));
}

/// Returns all values of "x" in the order of the data.
std::vector<double> numbers_of(const std::shared_ptr<const Dataset>& data, std::int64_t epoch) {
  std::vector<double> all;
  Loader loader(data, sequential_order(data->describe().size), 5, epoch);
  while (const auto batch = loader.next()) {
    const at::Tensor x = (*batch)["x"].to(at::kDouble);
    all.insert(all.end(), x.data_ptr<double>(), x.data_ptr<double>() + x.numel());
  }
  return all;
}

TEST_F(PythonDataTest, EachNamedPartIsItsOwnDataset) {
  const runner::Outputs made =
      outputs({{"parts", {{"train", {{"size", 7}}}, {"test", {{"size", 4}}}}},
               {"arguments", {{"size", 9}}}});
  EXPECT_FALSE(made.contains("validation"));
  EXPECT_EQ(part(made, "test")->describe().size, 4);
  const DatasetDescription train = part(made, "train")->describe();
  EXPECT_EQ(train.size, 7);
  EXPECT_THAT(train.classes, ElementsAre("even", "odd", "third"));
  ASSERT_EQ(train.tensors.size(), 3);
  EXPECT_EQ(train.tensors[0].name, "x");
  EXPECT_EQ(train.tensors[0].dtype, at::kFloat);
  EXPECT_EQ(train.tensors[1].dtype, at::kLong);
  EXPECT_TRUE(train.tensors[2].shape.empty());
  EXPECT_EQ(part(made, "test")->sample_name(2), "sample 2 of test");
}

TEST_F(PythonDataTest, AnyNumberOfReadersGivesTheSameBits) {
  const std::vector<double> alone = numbers_of(as_trained(train(Json::object())), 1);
  for (const int workers : {1, 3})
    EXPECT_EQ(numbers_of(as_trained(train({{"loader", {{"workers", workers}}}})), 1), alone);
  EXPECT_EQ(std::set(alone.begin(), alone.end()).size(), 12) << "each sample draws its own";
}

TEST_F(PythonDataTest, OnlyTrainingSamplesChangeWithTheEpoch) {
  const auto data = train(Json::object());
  EXPECT_TRUE(as_trained(data)->describe().augmented);
  EXPECT_NE(numbers_of(as_trained(data), 0), numbers_of(as_trained(data), 1));
  EXPECT_FALSE(data->describe().augmented);
  EXPECT_EQ(numbers_of(data, 0), numbers_of(data, 1));
  const auto still = as_trained(train({{"augmented", false}}));
  EXPECT_FALSE(still->describe().augmented);
  EXPECT_EQ(numbers_of(still, 0), numbers_of(still, 1));
}

TEST_F(PythonDataTest, AnotherSeedGivesDifferentNumbers) {
  const auto before = numbers_of(train(Json::object()), 0);
  context_.facts.seed = 2;
  EXPECT_NE(numbers_of(train(Json::object()), 0), before);
}

TEST_F(PythonDataTest, SplitAppliesItsSharesToEachClass) {
  const auto made = outputs({{"split", {{"train", 0.5}, {"validation", 0.25}, {"test", 0.25}}}});
  std::multiset<std::int64_t> all;
  for (const auto& [name, size] : {std::pair("train", 2), {"validation", 1}, {"test", 1}}) {
    const auto labels = part(made, name)->labels();
    for (const std::int64_t label : {0, 1, 2}) EXPECT_EQ(std::ranges::count(labels, label), size);
    for (std::int64_t i = 0; i < std::ssize(labels); ++i) {
      const NamedTensors sample = *part(made, name)->sample(0, i);
      EXPECT_EQ(sample.at("label").item<std::int64_t>(), labels[static_cast<std::size_t>(i)]);
      all.insert(sample.at("index").item<std::int64_t>());
    }
  }
  EXPECT_THAT(all, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
}

TEST_F(PythonDataTest, EachSampleIsValidatedInOneFold) {
  std::multiset<std::int64_t> validated;
  std::set<std::int64_t> tested;
  for (const int index : {0, 1, 2}) {
    const auto made = outputs({{"split", {{"train", 0.5}, {"validation", 0.25}, {"test", 0.25}}},
                               {"folds", {{"count", 3}, {"index", index}}}});
    const auto numbers = [&](const char* name) {
      std::set<std::int64_t> all;
      const auto data = part(made, name);
      for (std::int64_t i = 0, size = data->describe().size; i < size; ++i)
        all.insert(data->sample(0, i)->at("index").item<std::int64_t>());
      return all;
    };
    const auto train = numbers("train"), validation = numbers("validation"), test = numbers("test");
    EXPECT_EQ(train.size(), 6u);
    for (const std::int64_t label : {0, 1, 2})  // an image of each class
      EXPECT_EQ(std::ranges::count(part(made, "validation")->labels(), label), 1);
    for (const std::int64_t number : validation) EXPECT_FALSE(train.contains(number));
    validated.insert(validation.begin(), validation.end());
    if (index > 0) EXPECT_EQ(test, tested);
    tested = test;
  }
  EXPECT_EQ(validated.size(), 9u);
  for (std::int64_t number = 0; number < 12; ++number)
    EXPECT_EQ(validated.count(number) + tested.contains(number), 1u) << number;
  EXPECT_THAT(context_.said, Contains(HasSubstr("fold 2 of 3")));
}

TEST_F(PythonDataTest, SamplesOfAGroupStayTogether) {
  // Groups of two samples of one class: 0 and 3, 1 and 4, 2 and 5, 6 and 9, …
  write("\nNumbers.patients = [index // 6 * 3 + index % 3 for index in range(12)]\n");
  std::set<std::string> validated;
  for (const int index : {0, 1}) {
    const auto made = outputs({{"group", "patients"},
                               {"split", {{"train", 1.0}, {"test", 0.0}}},
                               {"folds", {{"count", 2}, {"index", index}}}});
    const auto groups = [&](const char* name) {
      std::multiset<std::string> all;
      const auto data = part(made, name);
      for (std::int64_t i = 0; i < data->describe().size; ++i)
        all.insert(dynamic_cast<const GroupedSamples&>(*data).group_of(i));
      return all;
    };
    const auto train = groups("train"), validation = groups("validation");
    EXPECT_EQ(validation.size(), 6u);
    for (const std::string& group : validation) {
      EXPECT_EQ(validation.count(group), 2u) << group;
      EXPECT_FALSE(train.contains(group)) << group;
    }
    validated.insert(validation.begin(), validation.end());
  }
  EXPECT_THAT(validated, ElementsAre("0", "1", "2", "3", "4", "5"));
  EXPECT_EQ(dynamic_cast<const GroupedSamples&>(*train(Json::object())).group_of(0), "");
}

TEST_F(PythonDataTest, MissingAndInvalidGroupsAreRejected) {
  const auto with = [&](const std::string& patients) {
    write("\nNumbers.patients = " + patients + "\n");
    return refusals_of([&] { train({{"group", "patients"}}); });
  };
  EXPECT_REFUSED(with("['a'] * 11"), kStageFailed, "/data/entry", "11 values", "12 samples");
  EXPECT_REFUSED(with("['a'] * 5 + [None] * 7"), kStageFailed, "/data/entry", "None for sample 5");
  EXPECT_REFUSED(with("[0.5] * 12"), kStageFailed, "/data/entry", "0.5 for sample 0");
  EXPECT_REFUSED(with("3"), kStageFailed, "/data/entry", "no list 'patients'");
  EXPECT_REFUSED((train({{"group", "patient"}})), kStageFailed, "/data/entry", "no list 'patient'");
}

TEST_F(PythonDataTest, MoreFoldsThanSamplesOfAClassAreRejected) {
  EXPECT_REFUSED((outputs({{"split", {{"train", 1.0}, {"test", 0.0}}}, {"folds", {{"count", 5}}}})),
                 kTooFewSamples, "/folds/count", "5 folds");
}

TEST_F(PythonDataTest, DatasetWithoutLabelsHasFolds) {
  write(
      "\nNumbers.targets = property(lambda self: [0.5] * 12, lambda self, value: None)\n"
      "Numbers.__getitem__ = lambda self, index: {'label': index % 3}\n");
  const auto made = outputs(
      {{"split", {{"train", 1.0}, {"test", 0.0}}}, {"folds", {{"count", 6}, {"index", 1}}}});
  EXPECT_EQ(part(made, "train")->describe().size, 10);
  EXPECT_EQ(part(made, "validation")->describe().size, 2);
}

TEST_F(PythonDataTest, DatasetWithoutLabelsIsSplit) {
  write(
      "\nNumbers.targets = property(lambda self: [0.5] * 12, lambda self, value: None)\n"
      "Numbers.__getitem__ = lambda self, index: {'label': index % 3}\n");
  const auto made = outputs({{"split", {{"train", 0.5}, {"test", 0.5}}}});
  EXPECT_EQ(part(made, "train")->describe().size, 6);
  EXPECT_TRUE(part(made, "train")->labels().empty());
  EXPECT_THAT(context_.said, Contains(HasSubstr("divided without regard to classes")));
}

TEST_F(PythonDataTest, SplittingDifferentDatasetsIsRejected) {
  EXPECT_REFUSED((outputs({{"split", Json::object()}, {"parts", {{"test", {{"size", 9}}}}}})),
                 kOptionConflict, "/split", "test");
}

TEST_F(PythonDataTest, ClassesWithoutALabelAreRejected) {
  write("\nNumbers.__getitem__ = lambda self, index: {'x': 1}\n");
  EXPECT_REFUSED((train(Json::object())), kOptionConflict, "/entry", "label");
}

TEST_F(PythonDataTest, LabelOutsideTheClassesIsRejectedWithItsSample) {
  write(
      "\nNumbers.__getitem__ = lambda self, index: {'label': index // 4}\n"
      "Numbers.classes = ['one', 'two']\n");
  const auto data = train(Json::object());
  EXPECT_REFUSED(data->sample(0, 8), kLabelOutOfRange, "/data/entry", "sample 8", "2");
}

TEST_F(PythonDataTest, SampleThatRaisesAnExceptionIsReportedOrSkipped) {
  write("\ndef trouble(index):\n    if index == 3: raise ValueError('no such picture')\n");
  const auto data = train(Json::object());
  EXPECT_REFUSED(data->sample(0, 3), kStageFailed, "/data/entry", "sample 3",
                 "ValueError: no such picture");
  EXPECT_TRUE(data->sample(0, 4)) << "its reader continues";
  EXPECT_EQ(train({{"on_corrupt", "skip"}})->sample(0, 3), std::nullopt);
}

TEST_F(PythonDataTest, CrashedReaderIsReportedAndReplaced) {
  const struct {
    const char* trouble;
    const char* says;
  } cases[] = {{"os._exit(5)", "ended with exit code 5"},
               {"os.kill(os.getpid(), signal.SIGKILL)", "was killed by signal 9"},
               {"os.closerange(3, 99)", "sample 3"},
               {"os.write(4, b'?' * 99)", "sent an invalid reply"},
               {"threading.Event().wait()", "did not answer within 1 s"}};
  for (const auto& [trouble, says] : cases) {
    SCOPED_TRACE(trouble);
    write("\ndef trouble(index):\n    if index == 3: " + std::string(trouble) + "\n");
    const auto data = train({{"loader", {{"timeout", 1}}}, {"on_corrupt", "skip"}});
    EXPECT_REFUSED(data->sample(0, 3), kStageFailed, "/data/entry", "sample 3", says);
    EXPECT_TRUE(data->sample(0, 4));
  }
}

TEST_F(PythonDataTest, StopEndsTheWaitForASample) {
  write("\ndef trouble(index):\n    if index == 3: threading.Event().wait()\n");
  const auto data = train({{"loader", {{"timeout", nullptr}}}});
  set_stop([] { return true; });
  EXPECT_THROW(data->sample(0, 3), runner::Canceled);
  set_stop({});
}

TEST_F(PythonDataTest, ForkInASampleCausesOnlyOneReply) {
  write("\ndef trouble(index):\n    os.fork()\n");
  const auto data = train(Json::object());
  for (const std::int64_t index : {1, 2, 3})
    EXPECT_EQ(data->sample(0, index)->at("index").item<std::int64_t>(), index);
}

TEST_F(PythonDataTest, DatasetThatDiffersBetweenProcessesIsRejected) {
  write(
      "\ndef make(**arguments):\n    return Numbers(12 + os.getpid() % 1000)\n"
      "def trouble(index):\n    if index == 3: os._exit(5)\n");
  const auto data = train(Json::object());
  EXPECT_REFUSED(data->sample(0, 3), kStageFailed, "/data/entry", "exit code 5");
  EXPECT_REFUSED(data->sample(0, 4), kStageFailed, "/data/entry", "samples in one process");
}

TEST_F(PythonDataTest, RandomGeneratorOwnedByTheDatasetIsReported) {
  write(
      "\nown = random.Random()\nNumbers.__getitem__ = lambda self, index: {'label': 0, 'x': "
      "own.random()}\n");
  train(Json::object());
  EXPECT_THAT(context_.said, Contains(HasSubstr("its own random number generator")));
}

TEST_F(PythonDataTest, ChangedDatasetIsRejectedUnlessChangesAreAccepted) {
  train(Json::object());
  const TemporaryFolder earlier;
  earlier.write("division.gz", context_.division);
  context_.facts.earlier = earlier.path();
  train(Json::object());
  write("\ndef make(**arguments):\n    return Numbers(11)\n");
  EXPECT_REFUSED((train(Json::object())), kChangedRun, "/entry", "12", "11");
  context_.facts.accepts_changes = true;
  train(Json::object());
  EXPECT_THAT(context_.said, Contains(HasSubstr("has changed since the run began")));
}

TEST_F(PythonDataTest, FingerprintIsDifferentEachTime) {
  const auto stage = stage_of(kDataPython, {{"entry", entry_}, {"split", Json::object()}});
  EXPECT_NE(stage->fingerprint(), stage->fingerprint());
}

}  // namespace
}  // namespace stages
