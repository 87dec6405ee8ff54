#include "runner/parent/page/comparison_document.h"

#include <gmock/gmock.h>

namespace runner {
namespace {

using testing::Contains;
using testing::ElementsAre;

ComparedRun run(const std::string& folder, double accuracy, const std::vector<double>& losses) {
  ComparedRun run;
  run.details.run.folder = folder;
  run.details.summary = nlohmann::ordered_json::object();
  run.details.environment = nlohmann::ordered_json::object();
  run.details.metrics = {{"evaluate", "evaluate/top1", accuracy, 1}};
  run.report.trainings.emplace_back("train", TrainingHistory(0));
  for (std::size_t i = 0; i < losses.size(); ++i)
    run.report.metrics.push_back(
        {{"train", "train/loss", losses[i], static_cast<std::int64_t>(i)}, 0});
  return run;
}

template <typename Kind>
std::vector<Kind> blocks_of(const Document& document) {
  std::vector<Kind> found;
  for (const Block& block : document.blocks)
    if (const auto* one = std::get_if<Kind>(&block)) found.push_back(*one);
  return found;
}

TEST(ComparisonDocument, MetricsAndCurvesAreSideBySide) {
  ComparedRun b = run("b", 0.75, {3, 1});
  b.details.metrics.push_back({"evaluate", "evaluate/top5", 1, 1});
  const Document document = comparison_document(run("a", 0.5, {2, 1}), b, nullptr);
  const std::vector<Table> tables = blocks_of<Table>(document);
  ASSERT_EQ(tables.size(), 4u);
  EXPECT_THAT(tables[0].rows, Contains(ElementsAre("run", "a", "b")));
  EXPECT_THAT(tables[2].rows,
              ElementsAre(ElementsAre("node", "metric", "A", "B", "B − A"),
                          ElementsAre("evaluate", "evaluate/top1", "0.5", "0.75", "0.25"),
                          ElementsAre("evaluate", "evaluate/top5", "–", "1", "–")));
  const std::vector<Figure> figures = blocks_of<Figure>(document);
  ASSERT_EQ(figures.size(), 1u);
  const std::string chart = figures[0].drawing.svg();
  EXPECT_THAT(chart, testing::HasSubstr("class=\"thin color-1\" data-name=\"A: training\""));
  EXPECT_THAT(chart, testing::HasSubstr("class=\"thin color-2\" data-name=\"B: training\""));
}

TEST(ComparisonDocument, AliasesDoNotCountAsDifferingSettings) {
  const auto with = [](const std::string& folder, const std::string& alias, std::int64_t epochs) {
    ComparedRun one = run(folder, 1, {});
    one.details.recipe = from_json(
        {{"name", folder}, {"aliases", {{"lr", alias}}}, {"train", {{"epochs", epochs}}}});
    return one;
  };
  const Document document = comparison_document(with("a", "x", 1), with("b", "y", 2), nullptr);
  EXPECT_THAT(blocks_of<Table>(document).at(1).rows,
              ElementsAre(ElementsAre("key", "A", "B"), ElementsAre("train.epochs", "1", "2")));
}

TEST(ComparisonDocument, EqualRecipesAreReportedAsTheSame) {
  const Document document = comparison_document(run("a", 1, {}), run("b", 1, {}), nullptr);
  std::vector<std::string> said;
  for (const Paragraph& one : blocks_of<Paragraph>(document)) said.push_back(one.text);
  EXPECT_THAT(said, ElementsAre("The recipes are the same.", "The environments are the same."));
}

}  // namespace
}  // namespace runner
