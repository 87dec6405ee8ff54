#include "runner/parent/sweep/ask_tell.h"

#include <unistd.h>

#include <array>
#include <sstream>

#include <gmock/gmock.h>

#include "runner/shared/disk/descriptor.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class AskTellTest : public testing::Test {
 protected:
  AskTellTest() {
    std::array<int, 2> ends{};
    if (pipe(ends.data()) != 0) std::abort();
    input_ = Descriptor(ends[0]);
    answers_ = Descriptor(ends[1]);
    sampler_.emplace(
        *input_, said_,
        [this](std::uint64_t, const AskTell::Json& settings) -> Result<std::uint64_t> {
          if (settings.contains("bad"))
            return Diagnostic{
                ErrorCode::kBadSweep, {}, "", "unknown key 'bad'", "did you mean 'good'?"};
          added_.push_back(settings.dump());
          return added_.size() + 9;
        },
        [](const Trial& trial) {
          return AskTell::Json{{"value", trial.seconds}, {"metrics", {{"a", 1}}}};
        });
  }
  void answer(const std::string& text) const {
    ASSERT_EQ(::write(*answers_, text.data(), text.size()), std::ssize(text));
  }
  std::string said() {
    const std::string text = said_.str();
    said_.str("");
    return text;
  }

  Descriptor input_, answers_;
  std::ostringstream said_;
  std::vector<std::string> added_;
  std::optional<AskTell> sampler_;
};

TEST_F(AskTellTest, FinishedTrialsAreReplayedOnResume) {
  std::vector<Trial> trials = {
      {.number = 0, .hash = "", .settings = {"x=1"}, .state = TrialState::kFinished, .ask = 0},
      {.number = 1, .hash = "", .settings = {"x=2"}, .state = TrialState::kInterrupted, .ask = 3},
      {.number = 2, .hash = "", .settings = {}, .state = TrialState::kFinished}};
  sampler_->go_on(trials, [](const Trial& trial) { return trial.state == TrialState::kFinished; });
  EXPECT_EQ(
      said(),
      R"({"tell":0,"trial":0,"state":"finished","overrides":["x=1"],"value":0.0,"metrics":{"a":1}})"
      "\n")
      << "but not unfinished or unrequested trials";
  trials[1].state = TrialState::kFinished;
  sampler_->ended(trials[1]);
  EXPECT_EQ(
      said(),
      R"({"tell":3,"trial":1,"state":"finished","overrides":["x=2"],"value":0.0,"metrics":{"a":1}})"
      "\n");
}

TEST_F(AskTellTest, UnansweredAsksAreRepeatedBeforeNewOnes) {
  sampler_->go_on({{.number = 0, .hash = "", .settings = {}, .ask = 0},
                   {.number = 1, .hash = "", .settings = {}, .ask = 3}},
                  [](const Trial&) { return false; });
  sampler_->take(3);
  EXPECT_EQ(said(), "{\"ask\":1}\n{\"ask\":2}\n{\"ask\":4}\n");
}

TEST_F(AskTellTest, AsksAsOftenAsNeededAndAcceptsAnswersInAnyOrder) {
  EXPECT_THAT(sampler_->take(2), IsEmpty());
  EXPECT_EQ(said(), "{\"ask\":0}\n{\"ask\":1}\n");
  EXPECT_THAT(sampler_->take(2), IsEmpty());
  EXPECT_EQ(said(), "") << "both are undecided";
  answer("{\"ask\": 1, \"settings\": {\"x\": 1}}\n{\"ask\": 0, \"settings\"");
  EXPECT_THAT(sampler_->take(2), ElementsAre(10));
  answer(": {\"x\": 2}}\n");
  EXPECT_THAT(sampler_->take(1), ElementsAre(11));
  EXPECT_THAT(added_, ElementsAre(R"({"x":1})", R"({"x":2})"));
  said();
  sampler_->ended(
      {.number = 11, .hash = "", .settings = {}, .state = TrialState::kFinished, .seconds = 4});
  EXPECT_EQ(said(), R"({"tell":0,"trial":11,"state":"finished","value":4.0,"metrics":{"a":1}})"
                    "\n");
  sampler_->ended({.number = 3, .hash = "", .settings = {}});
  EXPECT_EQ(said(), "") << "it was not asked for";
}

TEST_F(AskTellTest, EarlyLinesAreQueued) {
  answer("{\"ask\": 0, \"settings\": {}}\n{\"ask\": 1, \"settings\": {}}\n{\"stop\": true}\n");
  EXPECT_THAT(sampler_->take(1), ElementsAre(10));
  EXPECT_THAT(sampler_->take(0), IsEmpty());
  EXPECT_THAT(sampler_->take(1), ElementsAre(11));
  EXPECT_FALSE(sampler_->is_done());
  EXPECT_THAT(sampler_->take(1), IsEmpty());
  EXPECT_TRUE(sampler_->is_done());
}

TEST_F(AskTellTest, RejectedSettingsAreReportedAndAnotherTrialIsRequested) {
  answer("{\"ask\": 0, \"settings\": {\"bad\": 1}}\n");
  EXPECT_THAT(sampler_->take(1), IsEmpty());
  EXPECT_THAT(said(),
              HasSubstr(R"({"refused":0,"errors":["unknown key 'bad'; did you mean 'good'?"]})"));
  sampler_->take(1);
  EXPECT_EQ(said(), "{\"ask\":1}\n");
}

TEST_F(AskTellTest, MalformedLinesAreReportedAndTheAskStaysOpen) {
  sampler_->take(1);
  said();
  for (const char* line :
       {"nonsense", "[]", R"({"ask": -1, "settings": {}})", R"({"ask": 0})", R"({"ask": "0"})"}) {
    answer(std::string(line) + "\n");
    EXPECT_THAT(sampler_->take(1), IsEmpty());
    EXPECT_THAT(said(), HasSubstr("\"error\":\"expected "));
  }
  answer("{\"ask\": 7, \"settings\": {}}\n");
  sampler_->take(1);
  EXPECT_THAT(said(), HasSubstr("there is no open ask 7"));
  answer("\n{\"ask\": 0, \"settings\": {}}\n");
  EXPECT_THAT(sampler_->take(1), ElementsAre(10));
}

TEST_F(AskTellTest, EndOfInputEndsTheSampler) {
  answer("{\"ask\": 0, \"settings\": {}}");
  answers_.close();
  EXPECT_THAT(sampler_->take(1), ElementsAre(10)) << "the last line may lack a newline";
  sampler_->take(1);
  EXPECT_TRUE(sampler_->is_done());
}

}  // namespace
}  // namespace runner
