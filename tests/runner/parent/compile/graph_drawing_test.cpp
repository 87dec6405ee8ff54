#include "runner/parent/compile/graph_drawing.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace runner {
namespace {

Graph small() {
  Graph graph;
  graph.recipe = "demo";
  graph.nodes.push_back({.id = "data",
                         .stage = "data",
                         .kind = "data.two",
                         .options = {},
                         .pointer = "/data",
                         .inputs = {}});
  graph.nodes.push_back({.id = "train.0-1",
                         .stage = "train",
                         .kind = "train.\"fit\"",
                         .options = {},
                         .pointer = "/train",
                         .inputs = {{"train", 0, "train", ArtifactType::kDataset},
                                    {"validation", 0, "test", ArtifactType::kDataset}}});
  return graph;
}

TEST(GraphDrawing, TextShowsTheInputsOfEachNode) {
  EXPECT_EQ(draw_text(small()),
            "demo\n"
            "├─ data       data.two\n"
            "└─ train.0-1  train.\"fit\"\n"
            "              ← data.train  (dataset)\n"
            "              ← data.test → validation  (dataset)\n");
}

TEST(GraphDrawing, DotQuotesNames) {
  EXPECT_EQ(draw_dot(small()),
            "digraph \"demo\" {\n"
            "  rankdir=LR;\n"
            "  node [shape=box, style=rounded];\n"
            "  \"data\" [label=\"data\\ndata.two\"];\n"
            "  \"train.0-1\" [label=\"train.0-1\\ntrain.'fit'\"];\n"
            "  \"data\" -> \"train.0-1\" [label=\"train\"];\n"
            "  \"data\" -> \"train.0-1\" [label=\"test → validation\"];\n"
            "}\n");
}

TEST(GraphDrawing, MermaidQuotesNames) {
  EXPECT_EQ(draw_mermaid(small()),
            "flowchart LR\n"
            "  n0[\"data<br>data.two\"]\n"
            "  n1[\"train.0-1<br>train.'fit'\"]\n"
            "  n0 -->|\"train\"| n1\n"
            "  n0 -->|\"test → validation\"| n1\n");
}

TEST(GraphDrawing, JsonListsNodesAndEdges) {
  EXPECT_EQ(
      draw_json(small()).dump(),
      R"({"recipe":"demo","nodes":[{"id":"data","stage":"data","kind":"data.two"},)"
      R"({"id":"train.0-1","stage":"train","kind":"train.\"fit\""}],)"
      R"("edges":[{"from":"data","output":"train","to":"train.0-1","input":"train","type":"dataset"},)"
      R"({"from":"data","output":"test","to":"train.0-1","input":"validation","type":"dataset"}]})");
}

}  // namespace
}  // namespace runner
