#include <cmath>
#include <regex>
#include <set>

#include <gmock/gmock.h>

#include "runner/parent/report/comparison.h"
#include "runner/parent/report/episode_pictures.h"
#include "runner/parent/report/recorded_evaluation.h"
#include "runner/parent/report/training_picture.h"

namespace runner {
namespace {

using testing::HasSubstr;
using testing::Not;

TrainingHistory history(const std::vector<double>& losses, const std::vector<double>& accuracies) {
  TrainingHistory result(0);
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const auto step = static_cast<std::int64_t>(i + 1);
    result.see({"train", "train/epoch_loss", losses[i], step}, 1);
    if (i >= accuracies.size()) continue;
    result.see({"train", "validation/loss", losses[i] + 0.5, step}, 1);
    result.see({"train", "validation/accuracy", accuracies[i], step}, 1);
  }
  return result;
}

RecordedEvaluation evaluation(std::size_t classes) {
  RecordedEvaluation result;
  result.node = "evaluate";
  result.accuracy = 0.75;
  result.low = 0.5;
  result.high = 0.9;
  result.samples = 4;
  for (std::size_t i = 0; i < classes; ++i) {
    result.classes.push_back({"class" + std::to_string(i) + "<", 1, 1, 1});
    result.confusion.emplace_back(classes);
    result.confusion.back()[i] = 1;
  }
  result.confusion[0][1] = 3;
  return result;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t times = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++times;
  return times;
}

TEST(TrainingPicture, HasLossOnTheLeftAndAccuracyOnTheRight) {
  const std::string svg = draw_training(history({2, 1}, {0.25, 0.5}), "a <run>").svg();
  EXPECT_THAT(svg, HasSubstr(">Training of a &lt;run&gt;</title>"));
  EXPECT_THAT(svg, HasSubstr("2 epochs; training loss from 2.000 to 1.000, validation loss 2.500 "
                             "to 1.500, validation accuracy 25.0% to 50.0%</desc>"));
  EXPECT_EQ(count(svg, "<polyline class=\"line "),
            5u);  // two losses, an accuracy and two lines of the legend
  EXPECT_THAT(svg, HasSubstr(">accuracy, %</text>"));
  EXPECT_THAT(svg, HasSubstr(">100</text>"));
}

TEST(TrainingPicture, ShowsOnlyTheLossWithoutValidation) {
  const std::string svg = draw_training(history({2, 1}, {}), "run").svg();
  EXPECT_EQ(count(svg, "<polyline class=\"line "), 2u);
  EXPECT_THAT(svg, Not(HasSubstr("accuracy")));
}

TEST(TrainingPicture, LeavesOutNonFiniteValues) {
  const std::string svg = draw_training(history({NAN, 2, INFINITY, 1}, {}), "run").svg();
  EXPECT_EQ(count(svg, "<circle"), 2u);
  EXPECT_EQ(count(draw_training(history({NAN}, {}), "run").svg(), "<circle"), 0u);
}

TEST(TrainingPicture, OneEpochIsDrawnAsADot) {
  EXPECT_EQ(count(draw_training(history({2}, {0.5}), "run").svg(), "<circle"), 3u);
}

TEST(ConfusionPicture, NamesTheClassesUpToTwenty) {
  EXPECT_EQ(count(draw_confusion(evaluation(20), "run").svg(), ">class3&lt;</text>"), 2u);
  EXPECT_EQ(count(draw_confusion(evaluation(21), "run").svg(), ">class3&lt;</text>"), 0u);
}

TEST(ConfusionPicture, CellsAreShadedByTheirShareOfTheRow) {
  const std::string svg = draw_confusion(evaluation(2), "run").svg();
  EXPECT_THAT(svg, HasSubstr(" fill-opacity=\"0.75\"><title>class0&lt; predicted as class1&lt;: 3 "
                             "times</title></rect>\n"
                             "<text class=\"small inverse\""));
  EXPECT_THAT(svg, HasSubstr("<title>class1&lt; predicted as class1&lt;: once</title>"));
  EXPECT_THAT(svg, Not(HasSubstr("class1&lt; predicted as class0&lt;")));
}

TEST(RocPicture, NamesEachCurveWithItsArea) {
  RecordedEvaluation one = evaluation(2);
  one.macro = {"", 0.875, {{0, 0}, {0.5, 1}, {1, 1}}};
  one.class_curves = {{"rose & co", 0.5, {{0, 0}, {1, 1}}}};
  const std::string svg = draw_roc(one, "run").svg();
  EXPECT_THAT(svg, HasSubstr(">rose &amp; co, 0.500</text>"));
  EXPECT_THAT(svg, HasSubstr(">mean of the classes, 0.875</text>"));
  EXPECT_THAT(svg, Not(HasSubstr("all pairs")));
  EXPECT_THAT(svg, HasSubstr("<polyline class=\"line color-1\" points=\"70,416 250,56 430,56\"/>"));
}

TEST(RocPicture, TwentyClassesHaveDistinctStyles) {
  RecordedEvaluation one = evaluation(20);
  one.macro = {"", 0.875, {{0, 0}, {1, 1}}};
  for (int i = 0; i < 20; ++i)
    one.class_curves.push_back({"c" + std::to_string(i), 0.5, {{0, 0}, {1, 1}}});
  const std::string svg = draw_roc(one, "run").svg();
  std::set<std::string> styles;
  static const std::regex line(R"re(<polyline class="([^"]*)" points="460,)re");  // in the legend
  for (std::sregex_iterator at(svg.begin(), svg.end(), line), end; at != end; ++at)
    EXPECT_TRUE(styles.insert((*at)[1]).second) << (*at)[1];
  EXPECT_EQ(styles.size(), 22u) << "20 classes, their mean, and guessing";
}

TEST(PairPicture, HasACellForEachPairAndAScale) {
  RecordedEvaluation one = evaluation(3);
  one.pairs = {
      {0, 1, 10, 0.75}, {2, 0, 8, 1.0}, {0, 2, 8, 0.5}, {1, 2, 6, std::nullopt}, {0, 0, 9, 0.5}};
  const std::string svg = draw_pairs(one, "a <run>").svg();
  EXPECT_THAT(svg, HasSubstr(">Class-pair matrix of a &lt;run&gt;</title>"));
  EXPECT_THAT(svg,
              HasSubstr("<title>class0&lt; or class1&lt;: correct 75.0% of 10</title></rect>\n"));
  EXPECT_THAT(svg, HasSubstr("<title>class0&lt; or class2&lt;: correct 75.0% of 8</title>"))
      << "the mean of two networks";
  EXPECT_THAT(svg, Not(HasSubstr("class1&lt; or class2")));
  // The last class has no row, and the first class no column.
  EXPECT_EQ(count(svg, ">class0&lt;</text>"), 1u);
  EXPECT_EQ(count(svg, ">class1&lt;</text>"), 2u);
  EXPECT_EQ(count(svg, ">class2&lt;</text>"), 1u);
  for (const char* text : {">50%</text>", ">100%</text>", ">correct, %</text>"})
    EXPECT_THAT(svg, HasSubstr(text));
}

double height_in(const std::string& svg) {
  static const std::regex height(R"re(<svg [^>]* height="([0-9.]+)")re");
  std::smatch match;
  return std::regex_search(svg, match, height) ? std::stod(match[1]) : 0;
}

TEST(Pictures, TakeNoMoreRoomThanTheirNamesNeed) {
  RecordedEvaluation one = evaluation(3), other = evaluation(3);
  one.pairs = other.pairs = {{0, 1, 10, 0.75}};
  for (auto& shown : other.classes) shown.name = "a class with a long name";
  EXPECT_LT(height_in(draw_confusion(one, "").svg()) + 50,
            height_in(draw_confusion(other, "").svg()));
  EXPECT_LT(height_in(draw_pairs(one, "").svg()) + 50, height_in(draw_pairs(other, "").svg()));
  Comparison brief, wordy;
  brief.rows = {{"a", "one", "flowers", 1, one, "one"}};
  wordy.rows = {{"a", "one", "flowers", 1, one, "a label that has many letters"}};
  EXPECT_LT(height_in(draw_comparison(brief).svg()) + 50, height_in(draw_comparison(wordy).svg()));
}

TEST(Pictures, RunNameAppearsOnlyInFiles) {
  RecordedEvaluation one = evaluation(2);
  one.calibration_error = 0.125;
  one.bins = {{0.5, 1, 4, 0.8, 0.75}};
  one.episodes = {0.5, 0.75};
  for (const Drawing& drawing : {draw_training(history({2, 1}, {}), "my run"),
                                 draw_calibration(one, "my run"), draw_episodes(one, "my run")}) {
    EXPECT_THAT(drawing.svg(), HasSubstr(">my run</text>"));
    EXPECT_THAT(drawing.inlined("id"), Not(HasSubstr(">my run</text>")));
  }
}

TEST(CalibrationPicture, HasABarForEachNonEmptyBin) {
  RecordedEvaluation one = evaluation(2);
  one.calibration_error = 0.125;
  one.bins = {{0, 0.5, 0, 0, 0}, {0.5, 1, 4, 0.8, 0.75}};
  const std::string svg = draw_calibration(one, "run").svg();
  EXPECT_THAT(svg, HasSubstr("Calibration error 12.5%"));
  EXPECT_EQ(count(svg, "<rect class=\"fill-"), 2u);
  EXPECT_THAT(svg,
              HasSubstr("<title>4 predictions, mean probability 80.0%, correct 75.0%</title>"));
}

TEST(ComparisonPicture, HasABarForEachEvaluation) {
  Comparison comparison;
  comparison.rows = {{"a", "one", "flowers", 1, evaluation(2), "one"},
                     {"b", "two", "flowers", 1, evaluation(2), "two"}};
  const std::string svg = draw_comparison(comparison).svg();
  EXPECT_THAT(svg, HasSubstr(">Comparison of 2 evaluations</title>"));
  EXPECT_THAT(svg, HasSubstr("Accuracy on the test samples; one 75.0%; two 75.0%</desc>"));
  EXPECT_EQ(count(svg, "<rect class=\"fill-1\""), 2u) << "different colors would suggest a meaning";
  EXPECT_EQ(count(svg, "class=\"mark\""), 6u);
}

TEST(EpisodePicture, CountsTheEpisodesOfEachAccuracy) {
  RecordedEvaluation one = evaluation(2);
  one.accuracy = 0.55;
  one.low = 0.45;
  one.high = 0.65;
  one.episodes = {0.5, 0.5, 0.6, 0.6, 0.60000001, 0.5, 0.8, 0.4};
  const std::string svg = draw_episodes(one, "a <run>").svg();
  EXPECT_THAT(svg, HasSubstr(">8 episodes, mean 55.0%, 95% interval 45.0% to 65.0%</text>"));
  EXPECT_THAT(svg, HasSubstr("<title>3 episodes at 50.0%</title>"));
  EXPECT_THAT(svg, HasSubstr("<title>3 episodes at 60.0%</title>"));
  EXPECT_THAT(svg, HasSubstr("<title>1 episode at 80.0%</title>"));
  EXPECT_EQ(count(svg, " at "), 4u);
  EXPECT_THAT(svg, HasSubstr("of a &lt;run&gt; by episode"));
  EXPECT_THAT(svg, HasSubstr(">mean</text>"));
  EXPECT_THAT(svg, HasSubstr(">95% interval of the mean</text>"));
  EXPECT_EQ(count(svg, "<polyline class=\"mark\""), 2u) << "the mean, and the line of its legend";
}

// Bar widths are whole multiples of 1/80: no bar covers more values than another.
TEST(EpisodePicture, ManyAccuraciesShareBarsEvenly) {
  RecordedEvaluation one = evaluation(2);
  for (int right = 0; right < 80; ++right) one.episodes.push_back(right / 80.0);
  const std::string svg = draw_episodes(one, "run").svg();
  EXPECT_EQ(count(svg, "<title>2 episodes at "), 39u);
}

TEST(EpisodePicture, EqualEpisodesMakeOneBar) {
  RecordedEvaluation one = evaluation(2);
  one.accuracy = one.low = one.high = 1;
  one.episodes = {1, 1, 1};
  EXPECT_THAT(draw_episodes(one, "run").svg(), HasSubstr("<title>3 episodes at 100.0%</title>"));
}

TEST(EpisodePicture, DifferencesHaveABarAtZero) {
  const PairedDifference one = {.run = "b",
                                .base = "a",
                                .mean = 0.05,
                                .low = 0.01,
                                .high = 0.09,
                                .better = 2,
                                .worse = 1,
                                .equal = 1,
                                .of_episodes = {0.1, 0, -0.1, 0.1}};
  const std::string svg = draw_difference(one).svg();
  EXPECT_THAT(svg, HasSubstr("Accuracy difference, b against a"));
  EXPECT_THAT(
      svg, HasSubstr("mean 5.0%, 95% interval 1.0% to 9.0%; better in 2, worse in 1, equal in 1"));
  EXPECT_THAT(svg, HasSubstr("<title>1 episode at 0.0%</title>"));
  EXPECT_THAT(svg, HasSubstr("<title>1 episode at -10.0%</title>"));
}

}  // namespace
}  // namespace runner
