#include "runner/parent/run/precision_hint.h"

#include <gtest/gtest.h>

#include "runner/parent/devices/choose_device.h"

namespace runner {
namespace {

Value value_of(auto data) {
  Value value;
  value.data = std::move(data);
  return value;
}

Graph graph_with(Value precision, bool tf32) {
  Node policy{.id = "memory", .stage = "memory", .kind = "memory.policy"};
  policy.options = value_of(Value::Map{{.key = "precision", .key_where = {}, .value = precision},
                                       {.key = "tf32", .key_where = {}, .value = value_of(tf32)}});
  Graph graph;
  graph.nodes.push_back(std::move(policy));
  return graph;
}

std::string hint_for(const char* gpu, const Graph& graph) {
  const auto model = device_model(gpu);
  return precision_hint(graph, (*model)->name, (*model)->capability);
}

TEST(PrecisionHint, NamesTheFormatsOfAGpu) {
  const Graph graph = graph_with(value_of(std::string("fp32")), false);
  EXPECT_EQ(hint_for("A100 40GB", graph),
            "NVIDIA A100 40GB has formats that are faster than fp32 but change the training: "
            "memory.precision=bf16 or memory.tf32=true");
  EXPECT_EQ(hint_for("T4", graph), "");
  EXPECT_EQ(precision_hint(graph, "unknown", 0), "");
}

TEST(PrecisionHint, IsEmptyIfTheRecipeUsesOneOfThem) {
  EXPECT_EQ(hint_for("A100 40GB", graph_with(value_of(std::string("bf16")), false)), "");
  EXPECT_EQ(hint_for("A100 40GB", graph_with(value_of(std::string("fp32")), true)), "");
  const auto mapped = [](const char* format) {
    return graph_with(
        value_of(Value::Map{
            {.key = "default", .key_where = {}, .value = value_of(std::string("fp32"))},
            {.key = "model.head", .key_where = {}, .value = value_of(std::string(format))}}),
        false);
  };
  EXPECT_EQ(hint_for("A100 40GB", mapped("bf16")), "");
  EXPECT_NE(hint_for("A100 40GB", mapped("fp32")), "");
  EXPECT_EQ(hint_for("A100 40GB", Graph()), "");
}

}  // namespace
}  // namespace runner
