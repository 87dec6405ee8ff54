#include "stages/data/fetched_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fetching.h"
#include "runner/stage/stage.h"
#include "tests/support/planning_context.h"
#include "tests/support/recording_context.h"

namespace stages {
namespace {

class FetchedListTest : public testing::Test {
 protected:
  FetchedList made(bool is_to_be_fetched) {
    return {is_to_be_fetched,
            [this](const FetchCallbacks& callbacks) {
              callbacks.say("fetching");
              has_data_ = fetch_succeeds_;
            },
            [this]() -> runner::Result<ImageList> {
              ++lists_;
              if (has_data_) return ImageList{.root = "data", .classes = {"rose"}};
              return runner::Diagnostics{{runner::ErrorCode::kMissingFolder, {}, "", "no 'data'", "look"},
                                         {runner::ErrorCode::kEmptyClass, {}, "", "none", ""}};
            }};
  }

  RecordingContext context_;
  bool has_data_ = false, fetch_succeeds_ = true;
  int lists_ = 0;
};

TEST_F(FetchedListTest, WhatIsThereIsListedAtOnceAndOnce) {
  has_data_ = true;
  FetchedList list = made(false);
  EXPECT_TRUE(list.problems().empty());
  ASSERT_TRUE(list.get());
  EXPECT_EQ(&list.get(context_), list.get());
  EXPECT_EQ(lists_, 1);
  EXPECT_TRUE(context_.said.empty());
}

TEST_F(FetchedListTest, ProblemsAreKnownBeforeTheRun) {
  const FetchedList list = made(false);
  EXPECT_EQ(list.problems().size(), 2u);
  EXPECT_FALSE(list.get());
}

TEST_F(FetchedListTest, NothingIsFetchedToPlan) {
  FetchedList list = made(true);
  PlanningContext planning;
  EXPECT_THROW(list.get(planning), runner::StageError);
  EXPECT_EQ(lists_, 0);
}

TEST_F(FetchedListTest, FetchedInTheRunAndListedThen) {
  FetchedList list = made(true);
  EXPECT_TRUE(list.problems().empty());
  EXPECT_FALSE(list.get());
  EXPECT_EQ(lists_, 0);
  EXPECT_EQ(list.get(context_).classes.front(), "rose");
  EXPECT_THAT(context_.said, testing::ElementsAre("fetching"));
  EXPECT_TRUE(list.get());
}

TEST_F(FetchedListTest, ProblemOfWhatWasFetchedIsThrown) {
  fetch_succeeds_ = false;
  FetchedList list = made(true);
  EXPECT_EQ(failure_of([&] { list.get(context_); }), "E0601: no 'data' (look)");
}

TEST_F(FetchedListTest, NothingIsFetchedUnlessTheRecipeSaysSo) {
  int lists = 0;
  const auto lister = [&]() -> runner::Result<ImageList> { return ++lists, ImageList{}; };
  const FetchedList with("flowers102", "no/such", true, lister);
  EXPECT_EQ(lists, 0);
  const FetchedList without("flowers102", "no/such", false, lister);
  EXPECT_EQ(lists, 1);
}

}  // namespace
}  // namespace stages
