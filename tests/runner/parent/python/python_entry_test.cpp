#include "runner/parent/python/python_entry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/python_schemas.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::string refusal(const std::string& text) {
  const auto entry = python_entry(text);
  return entry ? "" : entry.errors().front().message;
}

TEST(PythonEntry, NamesAnAttributeOfAModule) {
  const auto entry = python_entry("timm.models:vit.base");
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->module, "timm.models");
  EXPECT_EQ(entry->top(), "timm");
  EXPECT_EQ(entry->file, "");
  EXPECT_EQ(entry->attribute, "vit.base");
}

TEST(PythonEntry, NamesAnAttributeOfAFile) {
  for (const std::string file :
       {"my_net.py", "nets/my_net.py", "../a b/net-2.py", "/x/odd:name.py"}) {
    const auto entry = python_entry(file + ":make");
    ASSERT_TRUE(entry) << file;
    EXPECT_EQ(entry->file, file);
    EXPECT_EQ(entry->module, "");
    EXPECT_EQ(entry->attribute, "make");
  }
}

TEST(PythonEntry, RejectsMalformedEntries) {
  const std::string no_parts = "it does not have the form module:name or file.py:name";
  for (const std::string text : {"", ":", "timm", "timm:", ":make"})
    EXPECT_EQ(refusal(text), "'" + text + "' does not refer to Python code: " + no_parts);
  EXPECT_EQ(refusal("timm:2x"),
            "'timm:2x' does not refer to Python code: '2x' is not a name in Python");
  EXPECT_EQ(refusal("timm:make()"),
            "'timm:make()' does not refer to Python code: 'make()' is not a name in Python");
  EXPECT_EQ(refusal("nets/my_net:make"),
            "'nets/my_net:make' does not refer to Python code: 'nets/my_net' is neither a module "
            "nor a file "
            "ending in .py");
  for (const char* text :
       {".timm:make", "timm..models:make", "timm.:make", ".py:make", "timm:a..b"})
    EXPECT_NE(refusal(text), "") << text;
}

TEST(PythonEntries, ComeOnlyFromKindsThatRunPython) {
  Graph graph;
  graph.nodes = {node_with_entry("model", "model.code", "my_net.py:make"),
                 node_with_entry("other", "model.plain", "my_net.py:make"),
                 node_with_entry("none", "model.unknown", "my_net.py:make")};
  const auto entries = python_entries(graph, python_schemas());
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].text, "my_net.py:make");
  EXPECT_EQ(entries[0].pointer, "/model/entry");
  EXPECT_EQ(entries[0].where.line, 3);
  graph.nodes.erase(graph.nodes.begin());
  EXPECT_THAT(python_entries(graph, python_schemas()), IsEmpty());
}

TEST(PythonEntries, AreListedOnceForAllNodesOfAForeach) {
  Graph graph;
  graph.nodes = {node_with_entry("model", "model.code", "a.py:make"),
                 node_with_entry("model", "model.code", "a.py:make"),
                 node_with_entry("model", "model.code", "b.py:make")};
  graph.nodes[1].id = "model.1";
  const auto entries = python_entries(graph, python_schemas());
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_THAT(entries[0].nodes, ElementsAre("model", "model.1"));
}

TEST(PythonEntries, IncludeNestedOptions) {
  Graph graph;
  graph.nodes = {node_with_tokenizer("model", "a.py:make", "b.py:tokenizer")};
  const auto entries = python_entries(graph, python_schemas());
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[1].text, "b.py:tokenizer");
  EXPECT_EQ(entries[1].pointer, "/model/tokenizer/entry");
  EXPECT_EQ(entries[1].where.line, 4);
  EXPECT_THAT(entries[1].nodes, ElementsAre("model"));
}

}  // namespace
}  // namespace runner
