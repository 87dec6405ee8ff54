#include "runner/config/job_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/config/compose.h"
#include "runner/config/override_text.h"
#include "tests/support/memory_file_system.h"

namespace runner {
namespace {

using testing::ElementsAre;

class JobListTest : public testing::Test {
 protected:
  JobListTest() {
    files.files = {{"a.yaml", "aliases: {both: [x, y], mixed: {'on': [x=1, z=2], 'off': [x=0]}, short: long.name}\n"},
                   {"data/birds.yaml", "{}"},
                   {"data/bees.yaml", "{}"},
                   {"data/cars.yaml", "{}"}};
  }

  /// The jobs as texts; the messages of what is wrong.
  std::vector<std::string> jobs(std::vector<std::string> overrides, std::uint64_t seed = 0) {
    ComposeRequest request{"a", std::move(overrides), {}};
    request.config_folders = {""};
    const auto composer = Composer::open(std::move(request), files, {}, sources);
    Diagnostics errors = composer->errors();
    const auto list = JobList::make(composer->overrides(), composer->configs(), seed);
    if (!list) errors.insert(errors.end(), list.errors().begin(), list.errors().end());
    std::vector<std::string> texts;
    for (const Diagnostic& error : errors) texts.push_back(error.message);
    if (!errors.empty()) return texts;
    for (std::uint64_t number = 0; number < list->size(); ++number) {
      std::string text;
      for (const Override& override : (*list)[number]) text += (text.empty() ? "" : " ") + override_text(override);
      texts.push_back(text);
    }
    return texts;
  }

  MemoryFileSystem files;
  Sources sources;
};

TEST_F(JobListTest, LastKeyVariesFastestAndSingleValuesStayInPlace) {
  EXPECT_THAT(jobs({"a=1,2", "~c", "+b=x", "d=3,4"}),
              ElementsAre("a=1 ~c +b=x d=3", "a=1 ~c +b=x d=4", "a=2 ~c +b=x d=3", "a=2 ~c +b=x d=4"));
}

TEST_F(JobListTest, WithoutASweepThereIsOneJob) {
  EXPECT_THAT(jobs({"a=1"}), ElementsAre("a=1"));
  EXPECT_THAT(jobs({}), ElementsAre(""));
}

TEST_F(JobListTest, RepeatedValueCountsAtTheFirstPlace) {
  EXPECT_THAT(jobs({"a=1", "b=2", "a=4"}), ElementsAre("a=4 b=2"));
}

TEST_F(JobListTest, SweepIsNeverOverwritten) {
  EXPECT_THAT(jobs({"a=1,2", "a=3"}), ElementsAre("'a' is given twice, and one of the two is a sweep"));
  EXPECT_THAT(jobs({"a=3", "a=1,2"}), ElementsAre("'a' is given twice, and one of the two is a sweep"));
  EXPECT_THAT(jobs({"p=zip(a=[1],b=[2])", "b=3"}), ElementsAre("'b' is given twice, and one of the two is a sweep"));
}

TEST_F(JobListTest, PrefixHidesNoRepeatedSweep) {
  EXPECT_THAT(jobs({"a=1,2", "++a=3"}), ElementsAre("'a' is given twice, and one of the two is a sweep"));
  EXPECT_THAT(jobs({"mixed=off,on", "+z=3"}), ElementsAre("'z' is given twice, and one of the two is a sweep"));
  EXPECT_THAT(jobs({"~a", "+a=1,2"}), ElementsAre("~a +a=1", "~a +a=2"));
  EXPECT_THAT(jobs({"a=1", "++a=2", "a=3", "++a=4"}), ElementsAre("a=3 ++a=4"));
}

TEST_F(JobListTest, HydrasOwnSettingsAreNotSwept) {
  EXPECT_THAT(jobs({"hydra.run.dir=a,b"}),
              ElementsAre("Sweeping over Hydra's configuration is not supported : 'hydra.run.dir'"));
  EXPECT_THAT(jobs({"hydra.run.dir=a", "b=1,2"}), ElementsAre("hydra.run.dir=a b=1", "hydra.run.dir=a b=2"));
}

TEST_F(JobListTest, ZipSetsItsKeysTogether) {
  EXPECT_THAT(jobs({"p=zip(a=[1,2],b.c=[x,y])", "d=3,4"}),
              ElementsAre("a=1 b.c=x d=3", "a=1 b.c=x d=4", "a=2 b.c=y d=3", "a=2 b.c=y d=4"));
}

TEST_F(JobListTest, AliasOfSeveralKeysSweepsThemTogether) {
  EXPECT_THAT(jobs({"both=1,2"}), ElementsAre("x=1 y=1", "x=2 y=2"));
  EXPECT_THAT(jobs({"both=range(1,3)"}), ElementsAre("x=1 y=1", "x=2 y=2"));
  EXPECT_THAT(jobs({"mixed=on,off"}), ElementsAre("x=1 z=2", "x=0"));
  EXPECT_THAT(jobs({"short=1,2"}), ElementsAre("long.name=1", "long.name=2"));
  EXPECT_THAT(jobs({"p=zip(short=[1,2],mixed=[on,off])"}), ElementsAre("long.name=1 x=1 z=2", "long.name=2 x=0"));
}

TEST_F(JobListTest, AliasOfSeveralKeysTakesOnlyValuesThatCanBeListed) {
  EXPECT_THAT(jobs({"mixed=on,of"}), ElementsAre("'mixed' does not take the value 'of'"));
  EXPECT_THAT(jobs({"both=interval(0,1)"}), ElementsAre("'both' sets several keys, so its values must be listed"));
}

TEST_F(JobListTest, GlobChoosesAmongTheOptionsOfAGroup) {
  EXPECT_THAT(jobs({"data=glob('b*')"}), ElementsAre("data=bees", "data=birds"));
  EXPECT_THAT(jobs({"data=glob('[!c]*',exclude='*s')"}), ElementsAre("no option of 'data' matches"));
  EXPECT_THAT(jobs({"date=glob(*)"}),
              ElementsAre("glob() chooses among the options of a group, and 'date' is not a group"));
}

TEST_F(JobListTest, ShuffledOrderFollowsFromTheSeed) {
  const auto first = jobs({"a=shuffle(range(0,9))"}, 1);
  EXPECT_EQ(first, jobs({"a=shuffle(range(0,9))"}, 1));
  EXPECT_NE(first, jobs({"a=shuffle(range(0,9))"}, 2));
  EXPECT_THAT(first, testing::UnorderedElementsAreArray(jobs({"a=range(0,9)"})));
}

TEST_F(JobListTest, EverythingWrongIsSaidAtOnce) {
  EXPECT_THAT(jobs({"a=range(3,1)", "b=interval(0,1)", "c=range(0,1000000000000)", "d=choice()"}), testing::SizeIs(4));
}

TEST_F(JobListTest, TooManyJobsAreRefused) {
  EXPECT_THAT(
      jobs({"a=range(0,10000)", "b=range(0,10000)", "c=range(0,10000)", "d=range(0,10000)", "e=range(0,10000)"}),
      ElementsAre("the sweep has more than 10000 runs"));
  EXPECT_THAT(jobs({"a=range(0,10001)"}), ElementsAre("the sweep has more than 10000 runs"));
}

}  // namespace
}  // namespace runner
