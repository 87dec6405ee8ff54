#include "runner/parent/cli/graph_worker.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/parent/run/plan_request.h"
#include "runner/shared/disk/digest.h"
#include "runner/shared/protocol/event.h"
#include "tests/support/python_schemas.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
namespace fs = std::filesystem;

/// An installation with the parts that host a worker, and a stand-in for the interpreter that plays
/// a script.
class GraphWorkerTest : public testing::Test {
 protected:
  GraphWorkerTest() {
    graph_.working_folder = folder_.path();
    graph_.device = "cpu";
    folder_.write("my_net.py", "a = 1\n");
    folder_.write("share/retort/python_host/retort_host/__main__.py", "");
    folder_.write("lib/libretort_worker.so", "");
    here_.trusted = folder_ / "trusted.json";
    here_.executable = folder_ / "bin/retort";
    here_.variable = [this](const char* name) {
      ++variables_read_;
      return std::string(name) == "VIRTUAL_ENV" ? std::optional((folder_ / "venv").string())
                                                : std::nullopt;
    };
    play("hello echo finished:0");
  }
  void play(const std::string& acts) {
    const auto file = folder_.write(
        "venv/bin/python",
        "#!/bin/sh\necho \"$@ $PYTHONDONTWRITEBYTECODE\" >&2\nexec '" RETORT_FAKE_WORKER "' " +
            acts + "\n");
    fs::permissions(file, fs::perms::owner_all);
  }
  void use(const std::string& kind, const std::string& entry) {
    graph_.nodes = {node_with_entry("model", kind, entry)};
  }
  void trust(const std::string& name) {
    TrustedCode code = *TrustedCode::read(here_.trusted);
    const auto file = read_code(folder_ / name);
    code.trust(file->real, file->sha256);
    code.save();
  }
  Result<WorkerCommand> worker() {
    return worker_for(graph_, recipe_, schemas_, LogFlags(), here_);
  }

  const TemporaryFolder folder_;
  const SchemaSet schemas_ = python_schemas();
  PythonSurroundings here_;
  Value recipe_{Value::Map{}, {}};
  Graph graph_;
  int variables_read_ = 0;
};

TEST_F(GraphWorkerTest, GraphWithoutPythonNeedsNoInterpreter) {
  use("model.plain", "my_net.py:make");
  folder_.write("trusted.json", "damaged");
  const auto found = worker();  // the installed one, which may not be built here
  EXPECT_EQ(variables_read_, 0);
  if (!found) return;
  EXPECT_FALSE(found->is_hosted);
  EXPECT_EQ(found->program.filename(), "retort-worker");
  EXPECT_THAT(found->variables, IsEmpty());
  EXPECT_THAT(graph_.python.files, IsEmpty());
}

TEST_F(GraphWorkerTest, UntrustedCodeIsRejectedBeforeSearchingForAnInterpreter) {
  use("model.code", "my_net.py:make");
  const auto found = worker();
  ASSERT_FALSE(found);
  EXPECT_EQ(found.errors().front().code, ErrorCode::kUntrustedCode);
  EXPECT_EQ(variables_read_, 0);
}

TEST_F(GraphWorkerTest, DamagedTrustListIsAnError) {
  use("model.code", "timm:create_model");
  folder_.write("trusted.json", "damaged");
  EXPECT_THAT(worker().errors().front().message, HasSubstr("trusted.json' is damaged"));
}

TEST_F(GraphWorkerTest, InterpreterHostsTheWorkerAndReceivesTrustedFiles) {
  use("model.code", "my_net.py:make");
  trust("my_net.py");
  const auto command = worker();
  ASSERT_TRUE(command) << command.errors().front().message;
  EXPECT_TRUE(command->is_hosted);
  EXPECT_EQ(command->program, folder_ / "venv/bin/python");
  std::string output, echoed;
  Conversation conversation;
  conversation.on_event = [&](const Event& event, WorkerProcess&) {
    if (const auto* said = std::get_if<Said>(&event)) echoed = said->line;
  };
  conversation.on_output = [&](std::string_view text) { output += text; };
  const auto ending =
      supervise(*command, {{"request", "run"}, {"graph", to_json(graph_)}}, conversation);
  ASSERT_TRUE(ending);
  EXPECT_EQ(ending->exit, ExitCode::kDone);
  EXPECT_EQ(output, (folder_ / "share/retort/python_host/retort_host/__main__.py").string() +
                        " --library " + (folder_ / "lib/libretort_worker.so").string() +
                        " --torch " RETORT_TORCH_REQUIREMENT " --events-fd 3 1\n");
  const auto request = nlohmann::json::parse(echoed);
  const std::string file = fs::canonical(folder_ / "my_net.py");
  const auto python = request["graph"]["python"];
  EXPECT_EQ(python["files"], (nlohmann::json{{file, sha256("a = 1\n")}}));
  EXPECT_EQ(python["folders"][0], fs::canonical(folder_.path()).string());
}

TEST_F(GraphWorkerTest, HostThatCannotLoadTheWorkerIsExplained) {
  use("model.code", "timm:create_model");
  play(
      "'err:Traceback (most recent call last):' 'err:retort_host: error: torch is not installed' "
      "err:bye exit:69");
  const auto answer = ask_worker(*worker(), {{"request", "versions"}});
  ASSERT_FALSE(answer);
  ASSERT_EQ(answer.errors().size(), 1u);
  EXPECT_EQ(answer.errors().front().code, ErrorCode::kNoPython);
  EXPECT_EQ(answer.errors().front().message,
            "'" + (folder_ / "venv/bin/python").string() +
                "' cannot host the worker: torch is not installed");
}

TEST_F(GraphWorkerTest, NonExecutableInterpreterIsReported) {
  use("model.code", "timm:create_model");
  folder_.write("venv/bin/python", "no program");
  const auto answer = ask_worker(*worker(), {{"request", "versions"}});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.errors().front().code, ErrorCode::kNoPython);
}

TEST_F(GraphWorkerTest, InstallationWithoutHostIsAnError) {
  use("model.code", "timm:create_model");
  fs::remove_all(folder_ / "share");
  EXPECT_EQ(worker().errors().front().code, ErrorCode::kWorkerMissing);
}

TEST_F(GraphWorkerTest, InterpreterOfTheRecipeIsUsed) {
  use("model.code", "timm:create_model");
  const Location where;
  recipe_.map()->push_back({"python", where, {std::string("other/python"), where}});
  EXPECT_EQ(worker().errors().front().code, ErrorCode::kNoPython);
  fs::create_directories(folder_ / "other");
  fs::copy(folder_ / "venv/bin/python", folder_ / "other/python");
  EXPECT_EQ(worker()->program, folder_ / "other/python");
}

TEST_F(GraphWorkerTest, ModuleNextToTheRecipeShadowsTheInstalledOne) {
  use("model.code", "timm:create_model");
  ASSERT_TRUE(worker());
  const SourceText source{folder_ / "recipes/a.yaml", ""};
  recipe_.where = {&source, 1, 1};
  folder_.write("recipes/timm.py", "");
  EXPECT_FALSE(worker());
}

TEST_F(GraphWorkerTest, TrialOfASweepIsCheckedBeforeTheSweepStarts) {
  Sources sources;
  const auto refused = [&](const std::string& recipe) {
    Value value = written(recipe);
    EXPECT_THAT(schemas_.validate(value), IsEmpty());
    return untrusted_code(value, schemas_, sources, here_);
  };
  EXPECT_THAT(
      refused(R"({"schema": 1, "model": {"kind": "model.plain", "entry": "no_net.py:make"}})"),
      IsEmpty());
  EXPECT_THAT(refused(R"({"schema": 1, "model": {"kind": "model.code"}})"), IsEmpty());
  const auto errors =
      refused(R"({"schema": 1, "model": {"kind": "model.code", "entry": "mypkg:make"}})");
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors.front().pointer, "/model/entry");
}

}  // namespace
}  // namespace runner
