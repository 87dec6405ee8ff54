#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/parent/cli/prepare.h"
#include "runner/parent/record/run_summary.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// The graph's remarks about a frozen network with these backbone options.
std::vector<std::string> remarks(const std::string& backbone) {
  Sources sources;
  const auto prepared = prepare_text(
      "schema: 1\ndata: {kind: data.image_folder, root: x}\n"
      "model: {kind: model.linear_probe, backbone: {kind: clip_vision, " +
          backbone + "}}\nmemory: {kind: memory.policy}\ntrain: {kind: train.supervised}\n",
      {}, shipped_schemas(), sources);
  if (!prepared) {
    for (const Diagnostic& error : prepared.errors())
      ADD_FAILURE() << error.pointer << " " << error.message;
    return {};
  }
  return prepared->graph.remarks;
}

TEST(Remarks, PretrainingIsReportedForTheWeightsItDescribes) {
  EXPECT_THAT(remarks("weights: a.pt, pretraining: {weights: a.pt, data: 'web images'}"),
              ElementsAre("the weights \"a.pt\" were trained on web images"));
}

TEST(Remarks, PretrainingIsNotReportedForOtherWeights) {
  EXPECT_THAT(remarks("weights: b.pt, pretraining: {weights: a.pt, data: 'web images'}"),
              IsEmpty());
  EXPECT_THAT(remarks("pretraining: {weights: a.pt, data: 'web images'}"), IsEmpty());
  EXPECT_THAT(remarks("weights: a.pt"), IsEmpty());
}

TEST(Remarks, AreInTheSummary) {
  Graph graph;
  EXPECT_FALSE(RunSummary(graph, "now", false).to_json().contains("remarks"));
  graph.remarks = {"known"};
  EXPECT_EQ(RunSummary(graph, "now", false).to_json()["remarks"][0], "known");
}

}  // namespace
}  // namespace runner
