#include "runner/parent/config/trial_list.h"

#include <cmath>
#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/parent/config/compose.h"
#include "runner/parent/config/override.h"
#include "tests/support/memory_file_system.h"

namespace runner {
namespace {

using testing::ElementsAre;

class TrialListTest : public testing::Test {
 protected:
  TrialListTest() {
    files.files = {
        {"a.yaml",
         "aliases: {both: [x, y], mixed: {'on': [x=1, z=2], 'off': [x=0]}, short: long.name}\n"},
        {"data/birds.yaml", "{}"},
        {"data/bees.yaml", "{}"},
        {"data/cars.yaml", "{}"}};
  }

  /// The trials as strings, or the error messages.
  std::vector<std::string> jobs(std::vector<std::string> overrides, std::uint64_t seed = 0) {
    return chosen(std::move(overrides), {.seed = seed, .samples = {}});
  }
  std::vector<std::string> drawn(std::uint64_t samples, std::vector<std::string> overrides,
                                 std::uint64_t seed = 0) {
    return chosen(std::move(overrides), {.seed = seed, .samples = samples});
  }
  std::vector<std::string> chosen(std::vector<std::string> overrides, const TrialChoice& choice) {
    ComposeRequest request{"a", std::move(overrides), {}};
    request.config_folders = {""};
    const auto composer = Composer::open(std::move(request), files, kWithoutSchema, sources);
    Diagnostics errors = composer->errors();
    const auto list = TrialList::make(composer->overrides(), composer->configs(), choice);
    if (!list) errors.insert(errors.end(), list.errors().begin(), list.errors().end());
    std::vector<std::string> texts;
    for (const Diagnostic& error : errors) texts.push_back(error.message);
    if (!errors.empty()) return texts;
    for (std::uint64_t number = 0; number < list->size(); ++number) {
      std::string text;
      for (const Override& override : (*list)[number])
        text += (text.empty() ? "" : " ") + override_text(override);
      texts.push_back(text);
    }
    return texts;
  }

  MemoryFileSystem files;
  Sources sources;
};

TEST_F(TrialListTest, LastKeyVariesFastestAndSingleValuesStayInPlace) {
  EXPECT_THAT(
      jobs({"a=1,2", "~c", "+b=x", "d=3,4"}),
      ElementsAre("a=1 ~c +b=x d=3", "a=1 ~c +b=x d=4", "a=2 ~c +b=x d=3", "a=2 ~c +b=x d=4"));
}

TEST_F(TrialListTest, WithoutASweepThereIsOneTrial) {
  EXPECT_THAT(jobs({"a=1"}), ElementsAre("a=1"));
  EXPECT_THAT(jobs({}), ElementsAre(""));
}

TEST_F(TrialListTest, RepeatedKeyKeepsItsFirstPositionAndTakesTheLastValue) {
  EXPECT_THAT(jobs({"a=1", "b=2", "a=4"}), ElementsAre("a=4 b=2"));
}

TEST_F(TrialListTest, SweepIsNeverOverwritten) {
  EXPECT_THAT(jobs({"a=1,2", "a=3"}),
              ElementsAre("'a' is given twice, and one of them is a sweep"));
  EXPECT_THAT(jobs({"a=3", "a=1,2"}),
              ElementsAre("'a' is given twice, and one of them is a sweep"));
  EXPECT_THAT(jobs({"p=zip(a=[1],b=[2])", "b=3"}),
              ElementsAre("'b' is given twice, and one of them is a sweep"));
}

TEST_F(TrialListTest, RepeatedSweepIsRejectedDespiteAPrefix) {
  EXPECT_THAT(jobs({"a=1,2", "++a=3"}),
              ElementsAre("'a' is given twice, and one of them is a sweep"));
  EXPECT_THAT(jobs({"mixed=off,on", "+z=3"}),
              ElementsAre("'z' is given twice, and one of them is a sweep"));
  EXPECT_THAT(jobs({"~a", "+a=1,2"}), ElementsAre("~a +a=1", "~a +a=2"));
  EXPECT_THAT(jobs({"a=1", "++a=2", "a=3", "++a=4"}), ElementsAre("a=3 ++a=4"));
}

TEST_F(TrialListTest, HydrasOwnSettingsAreNotSwept) {
  EXPECT_THAT(
      jobs({"hydra.run.dir=a,b"}),
      ElementsAre("Sweeping over Hydra's configuration is not supported : 'hydra.run.dir'"));
  EXPECT_THAT(jobs({"hydra.run.dir=a", "b=1,2"}),
              ElementsAre("hydra.run.dir=a b=1", "hydra.run.dir=a b=2"));
}

TEST_F(TrialListTest, ZipSetsItsKeysTogether) {
  EXPECT_THAT(jobs({"p=zip(a=[1,2],b.c=[x,y])", "d=3,4"}),
              ElementsAre("a=1 b.c=x d=3", "a=1 b.c=x d=4", "a=2 b.c=y d=3", "a=2 b.c=y d=4"));
}

TEST_F(TrialListTest, AliasOfSeveralKeysSweepsThemTogether) {
  EXPECT_THAT(jobs({"both=1,2"}), ElementsAre("x=1 y=1", "x=2 y=2"));
  EXPECT_THAT(jobs({"both=range(1,3)"}), ElementsAre("x=1 y=1", "x=2 y=2"));
  EXPECT_THAT(jobs({"mixed=on,off"}), ElementsAre("x=1 z=2", "x=0"));
  EXPECT_THAT(jobs({"short=1,2"}), ElementsAre("long.name=1", "long.name=2"));
  EXPECT_THAT(jobs({"p=zip(short=[1,2],mixed=[on,off])"}),
              ElementsAre("long.name=1 x=1 z=2", "long.name=2 x=0"));
}

TEST_F(TrialListTest, AliasOfSeveralKeysNeedsListedValues) {
  EXPECT_THAT(jobs({"mixed=on,of"}), ElementsAre("'mixed' does not accept the value 'of'"));
  EXPECT_THAT(jobs({"both=interval(0,1)"}),
              ElementsAre("'both' sets several keys, so its values must be listed"));
}

TEST_F(TrialListTest, GlobChoosesAmongTheOptionsOfAGroup) {
  EXPECT_THAT(jobs({"data=glob('b*')"}), ElementsAre("data=bees", "data=birds"));
  EXPECT_THAT(jobs({"data=glob('[!c]*',exclude='*s')"}),
              ElementsAre("no option of 'data' matches"));
  EXPECT_THAT(
      jobs({"date=glob(*)"}),
      ElementsAre("glob() chooses among the options of a group, but 'date' is not a group"));
}

TEST_F(TrialListTest, ShuffledOrderDependsOnTheSeed) {
  const auto first = jobs({"a=shuffle(range(0,9))"}, 1);
  EXPECT_EQ(first, jobs({"a=shuffle(range(0,9))"}, 1));
  EXPECT_NE(first, jobs({"a=shuffle(range(0,9))"}, 2));
  EXPECT_THAT(first, testing::UnorderedElementsAreArray(jobs({"a=range(0,9)"})));
}

TEST_F(TrialListTest, EachSampleDrawsAValuePerKeyAndRunsWithEachSeed) {
  const auto samples = drawn(3, {"a=1,2,3", "b=0", "seed=7,8", "c=interval(0.5,2)"}, 5);
  ASSERT_THAT(samples, testing::SizeIs(6));
  for (std::size_t i = 0; i < 6; i += 2) {
    EXPECT_THAT(samples[i], testing::MatchesRegex("a=[123] b=0 seed=7 c=[01]\\.[0-9]{1,6}"));
    EXPECT_EQ(std::regex_replace(samples[i], std::regex("seed=7"), "seed=8"), samples[i + 1]);
  }
  EXPECT_THAT(drawn(2, {"p=zip(a=[1,2],b=[3,4])"}),
              testing::UnorderedElementsAre("a=1 b=3", "a=2 b=4"));
}

TEST_F(TrialListTest, SamplesDependOnTheSeedAndTheirKeys) {
  const std::vector<std::string> sweep = {"a=interval(0,1)", "b=range(0,9)"};
  const auto six = drawn(6, sweep, 1);
  EXPECT_EQ(drawn(6, sweep, 1), six);
  EXPECT_NE(drawn(6, sweep, 2), six);
  auto four = six;
  four.resize(4);
  EXPECT_EQ(drawn(4, sweep, 1), four) << "the first draws do not depend on their number";
  const auto more = drawn(6, {"a=interval(0,1)", "b=range(0,9)", "c=interval(0,1)"}, 1);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_THAT(more[i], testing::StartsWith(six[i] + " c="));
  for (const std::string& text : more)
    EXPECT_FALSE(std::regex_search(text, std::regex("a=([^ ]*) .* c=\\1$")))
        << "two keys draw the same values: " << text;
}

TEST_F(TrialListTest, NoCombinationIsDrawnTwice) {
  const auto all = drawn(12, {"a=1,2,3", "b=int(interval(1,5))"});
  EXPECT_THAT(all, testing::UnorderedElementsAreArray(jobs({"a=1,2,3", "b=range(1,5)"})));
  EXPECT_THAT(drawn(13, {"a=1,2,3", "b=int(interval(1,5))"}),
              ElementsAre("sweep.samples is 13, but there are only 12 combinations to draw from"));
}

TEST_F(TrialListTest, LogarithmsAreDrawnUniformly) {
  const auto rates = drawn(1000, {"lr=tag(log,interval(0.0001,1))"});
  for (const double bound : {0.001, 0.01, 0.1}) {
    const auto below = std::ranges::count_if(rates, [&](const std::string& rate) {
      return std::stod(rate.substr(rate.find('=') + 1)) < bound;
    });
    EXPECT_NEAR(static_cast<double>(below) / 1000, (std::log10(bound) + 4) / 4, 0.05) << bound;
  }
}

TEST_F(TrialListTest, ImpossibleDrawsAreReported) {
  EXPECT_THAT(
      drawn(2, {"a=1", "seed=1,2"}),
      ElementsAre(
          "sweep.samples has nothing to draw from: no key other than 'seed' has several values"));
  EXPECT_THAT(drawn(2, {"a=interval(1,1)"}), ElementsAre("the interval from 1.0 to 1.0 is empty"));
  EXPECT_THAT(drawn(2, {"a=interval(0,inf)"}),
              ElementsAre("the bounds of an interval must be finite numbers"));
  EXPECT_THAT(drawn(2, {"a=tag(log,interval(0,1))"}),
              ElementsAre("a logarithmic interval starts at 0.0"));
  EXPECT_THAT(drawn(2, {"a=tag(log,new,interval(1,2))"}),
              ElementsAre("an interval has no tag 'new'"));
  EXPECT_THAT(drawn(2, {"a=int(interval(0,1e300))"}), testing::SizeIs(1));
  EXPECT_THAT(drawn(6000, {"a=interval(0,1)", "seed=1,2"}),
              ElementsAre("the sweep has more than 10000 runs"));
  EXPECT_THAT(drawn(2, {"a=1,2", "a=interval(0,1)"}),
              ElementsAre("'a' is given twice, and one of them is a sweep"));
}

TEST_F(TrialListTest, ReportsEveryErrorAtOnce) {
  EXPECT_THAT(jobs({"a=range(3,1)", "b=interval(0,1)", "c=range(0,1000000000000)", "d=choice()"}),
              testing::SizeIs(4));
}

TEST_F(TrialListTest, TooManyTrialsAreRejected) {
  EXPECT_THAT(jobs({"a=range(0,10000)", "b=range(0,10000)", "c=range(0,10000)", "d=range(0,10000)",
                    "e=range(0,10000)"}),
              ElementsAre("the sweep has more than 10000 runs"));
  EXPECT_THAT(jobs({"a=range(0,10001)"}), ElementsAre("the sweep has more than 10000 runs"));
}

}  // namespace
}  // namespace runner
