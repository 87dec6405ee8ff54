#include "stages/data/image_stage.h"

#include <algorithm>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/shared/stage/run_layout.h"
#include "stages/artifact/dataset.h"
#include "tests/support/fetching.h"
#include "tests/support/pictures.h"
#include "tests/support/planning_context.h"
#include "tests/support/recording_context.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

class ImageStageOf : public testing::Test {
 protected:
  ImageList roses() const {
    ImageList list{.root = "data", .classes = {"rose"}};
    for (int i = 0; i < 4; ++i) list[Part::kTrain].push_back({std::to_string(i) + ".jpg", 0});
    return list;
  }

  ImageSource source() {
    return {.list = [this]() -> runner::Result<ImageList> {
      ++lists_;
      if (has_data_) return roses();
      return runner::Diagnostics{{runner::ErrorCode::kMissingFolder, {}, "", "no 'data'", "look"},
                                 {runner::ErrorCode::kEmptyClass, {}, "", "none", ""}};
    }};
  }

  /// A source that must be downloaded first.
  ImageSource absent() {
    ImageSource absent = source();
    absent.obtain = [this](runner::RunContext& context) {
      context.say("fetching");
      has_data_ = fetch_succeeds_;
    };
    return absent;
  }

  runner::Result<std::unique_ptr<runner::Stage>> made(ImageSource source) {
    const runner::Value nothing = runner::from_json(nlohmann::ordered_json::object());
    runner::ConfigReader reader(nothing, "/data");
    return image_stage(reader, {.root = "data"}, std::move(source));
  }

  runner::Outputs run(const std::unique_ptr<runner::Stage>& stage) {
    return stage->run(runner::Inputs({}), context_);
  }

  RecordingContext context_;
  PlanningContext planning_;
  bool has_data_ = false, fetch_succeeds_ = true;
  int lists_ = 0;
};

TEST_F(ImageStageOf, ExistingImagesAreListedImmediatelyAndOnce) {
  has_data_ = true;
  const auto stage = made(source());
  ASSERT_TRUE(stage);
  EXPECT_FALSE((*stage)->fingerprint().empty());
  run(*stage);
  EXPECT_EQ(lists_, 1);
  EXPECT_THAT(context_.said, testing::ElementsAre(
                                 "1 classes; 4 images for training, 0 for validation, 0 for test"));
}

TEST_F(ImageStageOf, ErrorsAreFoundBeforeTheRun) {
  const auto stage = made(source());
  ASSERT_FALSE(stage);
  EXPECT_EQ(stage.errors().size(), 2u);
  EXPECT_EQ(stage.errors().front().pointer, "/data/root");
}

TEST_F(ImageStageOf, PlanningDownloadsNothing) {
  const auto stage = made(absent());
  ASSERT_TRUE(stage);
  EXPECT_REFUSED((*stage)->plan(runner::Inputs({}), planning_), kMissingFolder, "/root",
                 "retort data fetch");
  EXPECT_EQ(lists_, 0);
}

TEST_F(ImageStageOf, ImagesToDownloadArePlanned) {
  ImageSource foreseen = absent();
  foreseen.foresee = [this] { return roses(); };
  const auto stage = made(std::move(foreseen));
  const auto planned = (*stage)->plan(runner::Inputs({}), planning_);
  ASSERT_TRUE(planned);
  EXPECT_TRUE(planned->contains("train"));
  EXPECT_EQ(lists_, 0);
  run(*stage);
  EXPECT_FALSE((*stage)->plan(runner::Inputs({}), planning_));
}

TEST_F(ImageStageOf, ImagesAreDownloadedAndListedInTheRun) {
  const auto stage = made(absent());
  ASSERT_TRUE(stage);
  EXPECT_EQ((*stage)->fingerprint(), "");
  EXPECT_EQ(lists_, 0);
  run(*stage);
  EXPECT_EQ(context_.said.front(), "fetching");
  EXPECT_FALSE((*stage)->fingerprint().empty());
}

TEST_F(ImageStageOf, ErrorInDownloadedDataIsThrown) {
  fetch_succeeds_ = false;
  const auto stage = made(absent());
  EXPECT_REFUSED(run(*stage), kMissingFolder, "/root", "'data'", "look");
}

TEST_F(ImageStageOf, UnreadableImageIsReportedAtTheRoot) {
  has_data_ = true;
  const runner::Outputs outputs = run(*made(source()));
  EXPECT_REFUSED(
      dynamic_cast<const Dataset&>(*outputs.at("train")).sample(/*epoch=*/0, /*index=*/0),
      kMissingImage, "/data/root");
}

TEST_F(ImageStageOf, SplitsOnlyUndividedFolders) {
  has_data_ = true;
  ImageSource halved = source();
  halved.split = {.train = 0.5, .validation = 0.5, .test = 0};
  EXPECT_TRUE(run(*made(halved)).contains("validation"));
  halved.list = [this]() -> runner::Result<ImageList> {
    ImageList list = roses();
    list.divided = true;
    return list;
  };
  EXPECT_FALSE(run(*made(halved)).contains("validation"));
}

TEST_F(ImageStageOf, SeedIsUsedOnlyIfTheStageSplits) {
  has_data_ = true;
  ImageSource one = source();
  EXPECT_FALSE((*made(one))->uses_seed());
  one.split.emplace();
  EXPECT_TRUE((*made(one))->uses_seed());
  one.split_seed = 3;
  EXPECT_FALSE((*made(one))->uses_seed());
}

/// A run that splits its data, and the run that continues it.
class DividedAsBefore : public ImageStageOf {
 protected:
  DividedAsBefore() {
    for (int i = 0; i < 20; ++i) add("rose/" + std::to_string(i));
    for (int i = 0; i < 20; ++i) add("tulip/" + std::to_string(i));
    folder_.add("rose/0.jpg");  // the root must exist
  }

  void add(const std::string& image) { images_.insert(image + ".jpg"); }

  ImageList listed() const {
    ImageList list{.root = root_};
    std::set<std::string> classes;
    for (const std::string& image : images_) classes.insert(image.substr(0, image.find('/')));
    list.classes.assign(classes.begin(), classes.end());
    for (const std::string& image : images_) {
      const auto label =
          std::ranges::find(list.classes, image.substr(0, image.find('/'))) - list.classes.begin();
      list[Part::kTrain].push_back({image, label});
    }
    add_names(list, list.classes);
    return list;
  }

  std::unique_ptr<runner::Stage> stage(const SplitOptions& shares = {
                                           .train = 0.5, .validation = 0.2, .test = 0.3}) {
    ImageSource source{.list = [this]() -> runner::Result<ImageList> { return listed(); }};
    source.split = shares;
    source.split_seed = seed_;
    source.folds = folds_;
    source.captions = {CaptionTemplate("a {name}")};
    return *made(std::move(source));
  }

  /// Runs the stage and records its split like the executor.
  void train() {
    const auto first = stage();
    parts_ = part_names(first->run(runner::Inputs({}), context_));
    fingerprint_ = first->fingerprint();
    record();
    context_.facts.earlier = earlier_.path();
    context_.said.clear();
  }

  void record() const {
    write_bytes(runner::NodeLayout(earlier_.path()).division(),
                {context_.division.begin(), context_.division.end()});
  }

  using Parts = std::map<std::string, std::vector<std::string>>;
  static Parts part_names(const runner::Outputs& outputs) {
    Parts result;
    for (const auto& [port, artifact] : outputs) {
      const auto& data = dynamic_cast<const Dataset&>(*artifact);
      for (std::int64_t i = 0; i < data.describe().size; ++i)
        result[port].push_back(std::to_string(data.labels()[static_cast<std::size_t>(i)]) + " " +
                               data.sample_name(i));
    }
    return result;
  }

  DrawingFolder folder_, earlier_;
  std::string root_ = folder_.path().string();
  std::set<std::string> images_;
  std::int64_t seed_ = 3;
  std::optional<FoldOptions> folds_;
  Parts parts_;
  std::string fingerprint_;
};

TEST_F(DividedAsBefore, NewImagesBelongToNoPart) {
  train();
  for (int i = 100; i < 107; ++i) add("rose/" + std::to_string(i));
  const auto again = stage();
  EXPECT_EQ(part_names(run(again)), parts_);
  EXPECT_EQ(
      context_.said.front(),
      "7 images have been added since the run started, so no part contains them: 'rose/100.jpg', "
      "'rose/101.jpg', 'rose/102.jpg', 'rose/103.jpg', 'rose/104.jpg' and 2 more; a new run would "
      "use them");
  EXPECT_EQ(again->fingerprint(), fingerprint_) << "the same images have the same fingerprint";
  record();
  EXPECT_EQ(part_names(run(stage())), parts_) << "in another process, too";
}

TEST_F(DividedAsBefore, NewClassKeepsLabelsAndCaptions) {
  train();
  add("daisy/1");
  const auto outputs = run(stage());
  EXPECT_EQ(part_names(outputs), parts_);
  const auto data = dynamic_cast<const Dataset&>(*outputs.at("test")).describe();
  EXPECT_THAT(data.classes, testing::ElementsAre("rose", "tulip"));
  EXPECT_THAT(data.captions, testing::ElementsAre("a rose", "a tulip"));
}

TEST_F(DividedAsBefore, MissingImageIsReported) {
  train();
  images_.erase("tulip/7.jpg");
  EXPECT_REFUSED(run(stage()), kChangedRun, "/root", "tulip/7.jpg");
  context_.facts.accepts_changes = true;
  const auto again = stage();
  for (auto& [part, names] : parts_) std::erase(names, "1 tulip/7.jpg");
  EXPECT_EQ(part_names(run(again)), parts_);
  EXPECT_EQ(context_.said.front(),
            "1 image in the run's record is missing: 'tulip/7.jpg'; they are left out");
  EXPECT_NE(again->fingerprint(), fingerprint_);
}

TEST_F(DividedAsBefore, DifferentSharesOrSeedCauseANewSplitAndAReport) {
  train();
  add("rose/100");
  seed_ = 4;
  const Parts other = part_names(run(stage()));
  EXPECT_NE(other.at("train"), parts_.at("train"));
  EXPECT_THAT(
      context_.said.front(),
      testing::HasSubstr("not divided as in the previous run, which used shares 0.5, 0.2, "
                         "0.3 with seed 3; this run uses shares 0.5, 0.2, 0.3 with seed 4"));
}

TEST_F(DividedAsBefore, DifferentImagesInAnotherFolderGetANewSplit) {
  train();
  const DrawingFolder elsewhere;
  root_ = elsewhere.path().string();
  images_.erase("tulip/7.jpg");
  EXPECT_NO_THROW(run(stage()));
}

TEST_F(DividedAsBefore, CopiedFolderGetsTheSameSplit) {
  train();
  const DrawingFolder copy;
  std::filesystem::copy(folder_.path(), copy.path(), std::filesystem::copy_options::recursive);
  root_ = copy.path().string();
  for (int i = 100; i < 107; ++i) add("rose/" + std::to_string(i));
  EXPECT_EQ(part_names(run(stage())), parts_);
}

TEST_F(DividedAsBefore, UnusedImagesStayUnused) {
  const SplitOptions shares{.train = 0.5, .validation = 0, .test = 0.1};
  const auto first = stage(shares);
  parts_ = part_names(run(first));
  record();
  context_.facts.earlier = earlier_.path();
  add("rose/100");
  EXPECT_EQ(part_names(run(stage(shares))), parts_);
}

TEST_F(DividedAsBefore, RunWithoutARecordedSplitIsNotResumed) {
  context_.facts.earlier = earlier_.path();
  context_.facts.resuming = true;
  EXPECT_REFUSED(run(stage()), kChangedRun, "/split");
  context_.facts.accepts_changes = true;
  run(stage());
  EXPECT_THAT(context_.said.front(), testing::HasSubstr("divided again"));
}

TEST_F(DividedAsBefore, FoldIsTheValidationPart) {
  const SplitOptions shares{.train = 0.7, .validation = 0, .test = 0.3};
  const Parts whole = part_names(run(stage(shares)));
  std::vector<std::string> validated;
  for (std::int64_t index = 0; index < 3; ++index) {
    folds_ = {.count = 3, .index = index};
    const Parts parts = part_names(run(stage(shares)));
    EXPECT_EQ(parts.at("test"), whole.at("test"));
    validated.insert(validated.end(), parts.at("validation").begin(), parts.at("validation").end());
    EXPECT_THAT(context_.said, testing::Contains("the validation images are fold " +
                                                 std::to_string(index) + " of 3, counting from 0"));
  }
  EXPECT_THAT(validated, testing::UnorderedElementsAreArray(whole.at("train")));
}

TEST_F(DividedAsBefore, FoldsSplitTrainingAndValidationImages) {
  const Parts whole = part_names(run(stage()));
  folds_ = {.count = 4, .index = 2};
  const Parts parts = part_names(run(stage()));
  EXPECT_EQ(parts.at("test"), whole.at("test"));
  const auto both = [](const Parts& some) {
    std::set<std::string> names;
    for (const char* const part : {"train", "validation"})
      names.insert(some.at(part).begin(), some.at(part).end());
    return names;
  };
  EXPECT_EQ(both(parts), both(whole));
  EXPECT_NE(parts.at("validation"), whole.at("validation"));
}

TEST_F(DividedAsBefore, FoldKeepsItsImagesWhenImagesAreAdded) {
  const SplitOptions shares{.train = 0.7, .validation = 0, .test = 0.3};
  folds_ = {.count = 3, .index = 1};
  parts_ = part_names(run(stage(shares)));
  record();
  context_.facts.earlier = earlier_.path();
  for (int i = 100; i < 107; ++i) add("rose/" + std::to_string(i));
  EXPECT_EQ(part_names(run(stage(shares))), parts_);
}

TEST_F(DividedAsBefore, AnotherFoldCausesANewSplitAndAReport) {
  const SplitOptions shares{.train = 0.7, .validation = 0, .test = 0.3};
  folds_ = {.count = 3, .index = 1};
  parts_ = part_names(run(stage(shares)));
  record();
  context_.facts.earlier = earlier_.path();
  context_.said.clear();
  folds_->index = 2;
  EXPECT_NE(part_names(run(stage(shares))), parts_);
  EXPECT_THAT(context_.said.front(), testing::HasSubstr("fold 1 of 3 with seed 3; this run uses"));
}

TEST(Download, NothingIsDownloadedByDefault) {
  const auto fetcher = [](bool download) {
    const runner::Value options = runner::from_json(nlohmann::ordered_json{{"download", download}});
    runner::ConfigReader reader(options, "/data");
    return read_download(reader, "flowers102", "no/such");
  };
  EXPECT_TRUE(fetcher(true));
  EXPECT_FALSE(fetcher(false));
}

TEST_F(ImageStageOf, ErrorsInTheListPointToItsOption) {
  ImageSource one = source();
  one.list = []() -> runner::Result<ImageList> {
    return runner::Diagnostic{runner::ErrorCode::kMissingFolder, {}, "/table", "no table", ""};
  };
  EXPECT_EQ(made(one).errors().front().pointer, "/data/table");
}

TEST_F(ImageStageOf, NotesAboutTheListAreReported) {
  ImageSource one = source();
  one.list = [this]() -> runner::Result<ImageList> {
    ImageList list = roses();
    list.notes = {"2 classes are left out"};
    return list;
  };
  run(*made(one));
  EXPECT_EQ(context_.said.back(), "2 classes are left out");
}

TEST_F(ImageStageOf, MissingTestPartIsExplained) {
  ImageSource one = source();
  one.list = [this]() -> runner::Result<ImageList> {
    ImageList list = roses();
    list.no_test = {
        runner::ErrorCode::kMissingAnnotations, {}, "", "no labels for the test", "put them there"};
    return list;
  };
  const auto stage = made(one);
  EXPECT_REFUSED(run(*stage), kMissingAnnotations, "/root", "put them there");
  context_.facts.wanted = {{"train"}};
  EXPECT_TRUE(run(*stage).contains("train"));
  EXPECT_EQ(context_.said.back(), "no labels for the test");
}

}  // namespace
}  // namespace stages
