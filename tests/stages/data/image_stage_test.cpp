#include "stages/data/image_stage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stages/artifact/dataset.h"
#include "tests/support/fetching.h"
#include "tests/support/planning_context.h"
#include "tests/support/recording_context.h"

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

  /// A source that is to be fetched first.
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

  runner::Outputs run(const std::unique_ptr<runner::Stage>& stage) { return stage->run(runner::Inputs({}), context_); }

  RecordingContext context_;
  PlanningContext planning_;
  bool has_data_ = false, fetch_succeeds_ = true;
  int lists_ = 0;
};

TEST_F(ImageStageOf, WhatIsThereIsListedAtOnceAndOnce) {
  has_data_ = true;
  const auto stage = made(source());
  ASSERT_TRUE(stage);
  EXPECT_FALSE((*stage)->fingerprint().empty());
  run(*stage);
  EXPECT_EQ(lists_, 1);
  EXPECT_THAT(context_.said, testing::ElementsAre("1 classes; 4 images for training, 0 for validation, 0 for test"));
}

TEST_F(ImageStageOf, ProblemsAreKnownBeforeTheRun) {
  const auto stage = made(source());
  ASSERT_FALSE(stage);
  EXPECT_EQ(stage.errors().size(), 2u);
  EXPECT_EQ(stage.errors().front().pointer, "/data/root");
}

TEST_F(ImageStageOf, NothingIsFetchedToPlan) {
  const auto stage = made(absent());
  ASSERT_TRUE(stage);
  EXPECT_EQ(failure_of([&] { (*stage)->plan(runner::Inputs({}), planning_); }),
            "E0601: the data is not here yet, and planning does not fetch it "
            "(`retort run` fetches it, and so does `retort data fetch`)");
  EXPECT_EQ(lists_, 0);
}

TEST_F(ImageStageOf, WhatIsForeseenIsPlanned) {
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

TEST_F(ImageStageOf, FetchedInTheRunAndListedThen) {
  const auto stage = made(absent());
  ASSERT_TRUE(stage);
  EXPECT_EQ((*stage)->fingerprint(), "");
  EXPECT_EQ(lists_, 0);
  run(*stage);
  EXPECT_EQ(context_.said.front(), "fetching");
  EXPECT_FALSE((*stage)->fingerprint().empty());
}

TEST_F(ImageStageOf, ProblemOfWhatWasFetchedIsThrown) {
  fetch_succeeds_ = false;
  const auto stage = made(absent());
  EXPECT_EQ(failure_of([&] { run(*stage); }), "E0601: no 'data' (look)");
}

TEST_F(ImageStageOf, IsBlamedForAPictureThatWhoeverReadsItCannotRead) {
  has_data_ = true;
  const runner::Outputs outputs = run(*made(source()));
  try {
    dynamic_cast<const Dataset&>(*outputs.at("train")).sample(/*epoch=*/0, /*index=*/0);
    FAIL() << "there is no such file";
  } catch (const runner::StageError& error) {
    EXPECT_EQ(error.stage + error.option, "/data/root");
  }
}

TEST_F(ImageStageOf, IsDividedWhereTheFoldersHaveNotDoneSo) {
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

TEST_F(ImageStageOf, SeedMattersWhereItDivides) {
  has_data_ = true;
  ImageSource one = source();
  EXPECT_FALSE((*made(one))->uses_seed());
  one.split.emplace();
  EXPECT_TRUE((*made(one))->uses_seed());
  one.split_seed = 3;
  EXPECT_FALSE((*made(one))->uses_seed());
}

TEST(Download, NothingIsFetchedUnlessTheRecipeSaysSo) {
  const auto fetcher = [](bool download) {
    const runner::Value options = runner::from_json(nlohmann::ordered_json{{"download", download}});
    runner::ConfigReader reader(options, "/data");
    return read_download(reader, "flowers102", "no/such");
  };
  EXPECT_TRUE(fetcher(true));
  EXPECT_FALSE(fetcher(false));
}

TEST_F(ImageStageOf, WhatIsWrongIsBlamedOnTheOptionThatTheListNames) {
  ImageSource one = source();
  one.list = []() -> runner::Result<ImageList> {
    return runner::Diagnostic{runner::ErrorCode::kMissingFolder, {}, "/table", "no table", ""};
  };
  EXPECT_EQ(made(one).errors().front().pointer, "/data/table");
}

TEST_F(ImageStageOf, NotesOfTheListAreSaid) {
  ImageSource one = source();
  one.list = [this]() -> runner::Result<ImageList> {
    ImageList list = roses();
    list.notes = {"2 classes are left out"};
    return list;
  };
  run(*made(one));
  EXPECT_EQ(context_.said.back(), "2 classes are left out");
}

TEST_F(ImageStageOf, WhoWantsATestThatIsNotThereIsToldWhy) {
  ImageSource one = source();
  one.list = [this]() -> runner::Result<ImageList> {
    ImageList list = roses();
    list.no_test = {runner::ErrorCode::kMissingAnnotations, {}, "", "no labels for the test", "put them there"};
    return list;
  };
  const auto stage = made(one);
  EXPECT_EQ(failure_of([&] { run(*stage); }), "E0611: no labels for the test (put them there)");
  context_.facts.wanted = {{"train"}};
  EXPECT_TRUE(run(*stage).contains("train"));
  EXPECT_EQ(context_.said.back(), "no labels for the test");
}

}  // namespace
}  // namespace stages
