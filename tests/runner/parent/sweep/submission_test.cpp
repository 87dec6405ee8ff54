#include "runner/parent/sweep/submission.h"

#include <gmock/gmock.h>

#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Submission second() {
  return {.number = 2,
          .name = "retort-a-2",
          .job = "17",
          .trials = {3, 5},
          .attempts_before = {0, 2},
          .time_out_minutes = 30,
          .arguments = {"--log-level", "debug"},
          .run_arguments = {"--reuse"},
          .resume_arguments = {"--force"}};
}

TEST(Submission, IsReadBack) {
  const TemporaryFolder sweep;
  write_submission({.number = 1,
                    .name = "retort-a-1",
                    .is_refused = true,
                    .trials = {0},
                    .attempts_before = {0}},
                   sweep.path());
  write_submission(second(), sweep.path());
  const auto all = read_submissions(sweep.path());
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 2u);
  EXPECT_TRUE((*all)[0].is_refused);
  const Submission& one = (*all)[1];
  EXPECT_EQ(one.name, "retort-a-2");
  EXPECT_EQ(one.job, "17");
  EXPECT_THAT(one.trials, ElementsAre(3, 5));
  EXPECT_THAT(one.attempts_before, ElementsAre(0, 2));
  EXPECT_EQ(one.time_out_minutes, 30);
  EXPECT_THAT(one.arguments, ElementsAre("--log-level", "debug"));
  EXPECT_THAT(one.run_arguments, ElementsAre("--reuse"));
  EXPECT_THAT(one.resume_arguments, ElementsAre("--force"));
}

TEST(Submission, EmptyFolderHasNoSubmissions) {
  const TemporaryFolder sweep;
  const auto none = read_submissions(sweep.path());
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->empty());
  const auto one = read_submission(sweep / "launch/1");
  ASSERT_FALSE(one);
  EXPECT_EQ(one.errors().front().code, ErrorCode::kNoRun);
}

TEST(Submission, DamagedSubmissionIsReported) {
  const TemporaryFolder sweep;
  write_submission(second(), sweep.path());
  const std::string text = sweep.read("launch/2/submission.json");
  sweep.write("launch/1/submission.json", text.substr(0, 20));
  const auto all = read_submissions(sweep.path());
  ASSERT_FALSE(all);
  EXPECT_EQ(all.errors().front().code, ErrorCode::kDamagedRecord);
  EXPECT_THAT(all.errors().front().message,
              HasSubstr("launch/1/submission.json': a submission is not a JSON object"));
  std::string uneven = text;
  uneven.replace(uneven.find("[0,2]"), 5, "[0]");
  sweep.write("launch/1/submission.json", uneven);
  EXPECT_THAT(
      read_submissions(sweep.path()).errors().front().message,
      HasSubstr("a submission has a 'attempts_before' that is not a list as long as 'trials'"));
}

}  // namespace
}  // namespace runner
