#include "runner/parent/run/progress_display.h"

#include <sstream>

#include <gtest/gtest.h>

#include "runner/shared/text/units.h"

namespace runner {
namespace {

using namespace std::chrono_literals;

Progress training(std::int64_t step) {
  return {.phase = "train",
          .epoch = 2,
          .epochs = 10,
          .step = step,
          .steps = 400,
          .samples_per_second = 812.4,
          .loss = 0.69314,
          .seconds_left = 83.2,
          .memory_bytes = 512 << 20,
          .budget_bytes = std::int64_t{2} << 30};
}

class ProgressDisplayTest : public testing::Test {
 protected:
  DisplayOptions options(bool is_terminal, Verbosity verbosity = Verbosity::kNormal) {
    DisplayOptions result;
    result.is_terminal = is_terminal;
    result.verbosity = verbosity;
    result.size = [this] { return TerminalSize{.columns = width_}; };
    result.clock = [this] { return now_; };
    return result;
  }
  std::string shown() {
    const std::string text = out_.str();
    out_.str("");
    return text;
  }
  std::ostringstream out_;
  std::chrono::steady_clock::time_point now_{};
  std::size_t width_ = 200;
};

const std::string kLine =
    "train  epoch 2/10  step 40/400  812 images/s  loss 0.6931  ETA 0:01:23  tensors 512 MiB of "
    "2.0 GiB";

TEST(ProgressLine, ShowsKnownValues) {
  EXPECT_EQ(progress_line("train", training(40)), kLine);
  EXPECT_EQ(progress_line("train.0-1", {.phase = "validate", .step = 3}),
            "train.0-1  validate  step 3");
  EXPECT_EQ(progress_line("data", {}), "data");
  EXPECT_EQ(progress_line("train", {.samples_per_second = 1.25, .loss = 1234567}),
            "train  1.2 images/s  loss 1.235e+06");
  EXPECT_EQ(progress_line("a", {.phase = "\x1b[2J"}), "a   [2J");
}

TEST(ProgressLine, ShowsFetchedBytes) {
  Progress progress{.phase = "download a.tgz", .seconds_left = 83.2};
  progress.bytes = 12 << 20;
  EXPECT_EQ(progress_line("data", progress), "data  download a.tgz  12 MiB  ETA 0:01:23");
  progress.bytes_in_all = 329 << 20;
  progress.bytes_per_second = 4.2 * (1 << 20);
  EXPECT_EQ(progress_line("data", progress),
            "data  download a.tgz  12 MiB of 329 MiB  4.2 MiB/s  ETA 0:01:23");
}

TEST(ProgressLine, DurationsAreHoursMinutesAndSeconds) {
  EXPECT_EQ(duration_text(83.2), "0:01:23");
  EXPECT_EQ(duration_text(359999.6), "100:00:00");
  EXPECT_EQ(duration_text(-1), "0:00:00");
  EXPECT_EQ(duration_text(0.0 / 0.0), "0:00:00");
}

TEST_F(ProgressDisplayTest, TerminalShowsOneLiveLineAtMostTenTimesASecond) {
  ProgressDisplay display(out_, options(true));
  now_ += 100ms;
  display.progress("train", training(40));
  EXPECT_EQ(display.tick(), std::nullopt);
  EXPECT_EQ(shown(), "\r\x1b[K" + kLine);
  display.progress("train", training(41));
  now_ += 30ms;
  EXPECT_EQ(display.tick(), 70ms);
  EXPECT_EQ(shown(), "");
  now_ += 70ms;
  display.tick();
  EXPECT_NE(shown().find("step 41/400"), std::string::npos);
  now_ += 1s;
  EXPECT_EQ(display.tick(), std::nullopt);
  EXPECT_EQ(shown(), "") << "nothing is drawn if nothing is new";
}

TEST_F(ProgressDisplayTest, LiveLineIsShortenedToTheTerminal) {
  ProgressDisplay display(out_, options(true));
  width_ = 20;
  now_ += 1s;
  display.progress("träin", training(40));
  display.tick();
  EXPECT_EQ(shown(), "\r\x1b[Kträin  train …");
  width_ = 10;
  display.resize();
  now_ += 1s;
  display.tick();
  EXPECT_EQ(shown(), "\r\x1b[Kträin …");
}

TEST_F(ProgressDisplayTest, PrintedLineStaysAboveTheLiveLine) {
  ProgressDisplay display(out_, options(true));
  now_ += 1s;
  display.progress("train", training(40));
  display.tick();
  shown();
  display.say("train", "epoch 1: 83%\x1b[2J");
  EXPECT_EQ(shown(), "\r\x1b[Ktrain: epoch 1: 83% [2J\n");
  now_ += 1s;
  display.tick();
  EXPECT_EQ(shown(), "\r\x1b[K" + kLine);
}

TEST_F(ProgressDisplayTest, SecretsAreNotShown) {
  const Value recipe{Value::List{{std::string("hunter2"), {}, "***"}}, {}};
  ProgressDisplay display(out_, options(false, Verbosity::kVerbose), SecretTexts(recipe));
  display.say("data", "in hunter2/a");
  display.detail("read hunter2");
  display.log(LogLevel::kDebug, "data", "hunter2 it was");
  EXPECT_EQ(shown(), "data: in ***/a\nread ***\ndebug: data: *** it was\n");
}

TEST_F(ProgressDisplayTest, LiveLineIsRemovedAtTheEnd) {
  {
    ProgressDisplay display(out_, options(true));
    now_ += 1s;
    display.progress("train", training(40));
    display.tick();
    shown();
    display.node_finished();
    EXPECT_EQ(shown(), "\r\x1b[K");
    now_ += 1s;
    EXPECT_EQ(display.tick(), std::nullopt);
    display.progress("evaluate", {});
    display.tick();
    shown();
  }
  EXPECT_EQ(shown(), "\r\x1b[K") << "also when it is destroyed by an exception";
}

TEST_F(ProgressDisplayTest, WithoutATerminalPrintsAPlainLineEveryTenSeconds) {
  ProgressDisplay display(out_, options(false));
  display.progress("train", training(1));
  now_ += 4s;
  EXPECT_EQ(display.tick(), 6s);
  display.progress("train", training(40));
  now_ += 6s;
  EXPECT_EQ(display.tick(), std::nullopt);
  EXPECT_EQ(shown(), kLine + "\n");
  display.say("train", "epoch 1: 83%");
  EXPECT_EQ(shown(), "train: epoch 1: 83%\n");
  display.node_finished();
  EXPECT_EQ(shown(), "");
}

TEST_F(ProgressDisplayTest, QuietPrintsNothing) {
  ProgressDisplay display(out_, options(true, Verbosity::kQuiet));
  now_ += 1s;
  display.progress("train", training(40));
  display.tick();
  display.say("train", "epoch 1");
  display.detail("chatter");
  EXPECT_EQ(shown(), "");
}

TEST_F(ProgressDisplayTest, WorkerOutputIsShownOnlyIfVerbose) {
  ProgressDisplay normal(out_, options(false)), verbose(out_, options(false, Verbosity::kVerbose));
  normal.detail("chatter");
  EXPECT_EQ(shown(), "");
  verbose.detail("chatter");
  EXPECT_EQ(shown(), "chatter\n");
}

TEST_F(ProgressDisplayTest, ColorMarksTheStage) {
  DisplayOptions colored = options(true);
  colored.color = true;
  ProgressDisplay display(out_, colored);
  display.say("train", "epoch 1");
  EXPECT_EQ(shown(), "\x1b[1mtrain\x1b[0m: epoch 1\n");
}

}  // namespace
}  // namespace runner
