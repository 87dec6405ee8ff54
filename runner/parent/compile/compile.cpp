#include "runner/parent/compile/compile.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "runner/parent/compile/legality.h"
#include "runner/parent/compile/option_walk.h"
#include "runner/parent/compile/wiring.h"
#include "runner/parent/schema/schema_node.h"
#include "runner/shared/graph/graph.h"
#include "runner/shared/stage/family.h"
#include "runner/shared/stage/split_mix.h"
#include "runner/shared/text/suggest.h"
#include "runner/shared/value/value.h"

namespace runner {
namespace {

constexpr std::size_t kMaxItems = 1000;  // maximum number of nodes per stage
constexpr const char* kFoldSuffix = ".fold";

std::uint64_t node_seed(std::uint64_t seed, std::string_view id) {
  return split_mix(seed + fnv1a(id) + kSplitMixStep);
}

Value without(Value options, std::initializer_list<std::string_view> keys) {
  std::erase_if(*options.map(),
                [&](const Entry& entry) { return std::ranges::count(keys, entry.key) > 0; });
  return options;
}

/// Removes options that do not affect the result from `value`, the mapping at `path` in the recipe.
/// Returns true if there were any.
bool remove_safe(Value& value, std::vector<std::string>& path, const Value& recipe,
                 const SchemaSet& schemas) {
  if (!value.map()) return false;
  bool is_changed = false;
  std::erase_if(*value.map(), [&](Entry& entry) {
    path.push_back(entry.key);
    const bool is_safe = schemas.resume_class(recipe, path) == ResumeClass::kSafe;
    if (is_safe || remove_safe(entry.value, path, recipe, schemas)) is_changed = true;
    path.pop_back();
    return is_safe;
  });
  return is_changed;
}

bool hides_anything(const Value& value) {
  if (!value.secret_as.empty()) return !value.says(value.secret_as);
  const auto* list = value.list();
  const auto* map = value.map();
  return (list && std::ranges::any_of(*list, hides_anything)) ||
         (map && std::ranges::any_of(*map, hides_anything, &Entry::value));
}

class Compiler {
 public:
  Compiler(const Recipe& recipe, const SchemaSet& schemas) : recipe_(recipe), schemas_(schemas) {}

  Result<Graph> run() {
    make_drafts();
    for (std::size_t i = 0; i < drafts_.size(); ++i) options_.push_back(options_of(drafts_[i]));
    for (std::size_t i = 0; i < drafts_.size(); ++i) wires_.push_back(wire(drafts_, i, errors_));
    add_evaluations_of_folds();
    const std::vector<std::size_t> order = sorted();
    if (!errors_.empty()) return each_once(std::move(errors_));
    return build(order);
  }

 private:
  void make_drafts() {
    std::set<std::string> ids;
    for (const StageSpec& stage : recipe_.stages) {
      const Value* foreach = foreach_of(stage);
      if (item_count(foreach, kMaxItems) > kMaxItems) {
        errors_.push_back({ErrorCode::kBadForeach, place_of_foreach(stage),
                           pointer_to("", stage.name) + "/foreach",
                           "foreach creates more than " + std::to_string(kMaxItems) + " nodes",
                           "shorten its lists"});
        continue;
      }
      for (ForeachItem& item : items(foreach)) {
        Draft draft{&stage, schemas_.kind(stage.kind), std::move(item), ""};
        draft.id = node_id(stage, draft.item);
        if (!ids.insert(draft.id).second) {
          errors_.push_back({ErrorCode::kDuplicateNode, place_of_foreach(stage),
                             pointer_to("", stage.name),
                             "two nodes would be called '" + draft.id + "'",
                             "give foreach items with different values"});
        } else if (draft.id.size() > 120) {
          errors_.push_back(
              {ErrorCode::kBadForeach, place_of_foreach(stage),
               pointer_to("", stage.name) + "/foreach",
               "the node's name '" + draft.id.substr(0, 40) + "…' is longer than 120 characters",
               "it is used as a folder name: give foreach shorter values"});
        }
        drafts_.push_back(std::move(draft));
      }
    }
  }

  /// Returns the foreach of `stage`. An evaluation without its own foreach uses the foreach of
  /// the training stage that it evaluates. Null if there is none.
  const Value* foreach_of(const StageSpec& stage) const {
    const Value* own = stage.options.find("foreach");
    if (own || family_of(stage.kind) != Family::kEvaluate) return own;
    for (const Port& port : schemas_.kind(stage.kind)->inputs) {
      const StageSpec* training = port.many ? nullptr : training_of(stage, port);
      if (const Value* foreach = training ? training->options.find("foreach") : nullptr)
        return foreach;
    }
    return nullptr;
  }

  /// Returns the training stage with an output wired to `port`: the one named in `inputs`, or the
  /// only one with such an output. Null if there is none.
  const StageSpec* training_of(const StageSpec& stage, const Port& port) const {
    const Value* inputs = stage.options.find("inputs");
    const Value* written = inputs ? inputs->find(port.name) : nullptr;
    const std::string named =
        written && written->text() ? written->text()->substr(0, written->text()->find('.')) : "";
    const StageSpec* only = nullptr;
    for (const StageSpec& other : recipe_.stages) {
      if (family_of(other.kind) != Family::kTrain || (written && other.name != named)) continue;
      if (std::ranges::find(schemas_.kind(other.kind)->outputs, port.type, &Port::type) ==
          schemas_.kind(other.kind)->outputs.end())
        continue;
      if (only) return nullptr;
      only = &other;
    }
    return only;
  }

  static Location place_of_foreach(const StageSpec& stage) {
    const Value* foreach = stage.options.find("foreach");
    return foreach ? foreach->where : stage.name_where;
  }

  /// Returns the options with the item filled in, and validates them again if `foreach` has changed
  /// them.
  Value options_of(const Draft& draft) {
    const std::string pointer = pointer_to("", draft.stage->name);
    auto filled =
        fill_in(without(draft.stage->options, {"name", "inputs", "foreach"}), draft.item, pointer);
    if (!filled) {
      errors_.insert(errors_.end(), filled.errors().begin(), filled.errors().end());
      return {};
    }
    if (!draft.item.empty()) {
      for (Diagnostic error : schemas_.validate(*filled, draft.kind->file)) {
        error.pointer = pointer + error.pointer;
        error.message += " (in " + draft.id + ")";
        errors_.push_back(std::move(error));
      }
    }
    return without(*std::move(filled), {"kind"});
  }

  /// For data with folds, adds a node for each evaluation of the test part. The new node evaluates
  /// the fold in the same way, which produces the out-of-fold predictions.
  void add_evaluations_of_folds() {
    const std::size_t written = drafts_.size();
    for (std::size_t i = 0; i < written; ++i) {
      if (family_of(drafts_[i].kind->name) != Family::kEvaluate) continue;
      std::vector<Wire> wires = wires_[i];
      bool is_of_fold = false;
      for (Wire& wire : wires) {
        for (Source& source : wire.sources) {
          const Port* const fold = fold_beside(source, written);
          if (!fold) continue;
          source.port = fold;
          is_of_fold = true;
        }
      }
      if (is_of_fold) add_evaluation_of_fold(i, std::move(wires));
    }
  }

  void add_evaluation_of_fold(std::size_t of, std::vector<Wire> wires) {
    Draft draft = drafts_[of];
    draft.id += kFoldSuffix;
    draft.is_of_fold = true;
    if (std::ranges::find(drafts_, draft.id, &Draft::id) != drafts_.end())
      errors_.push_back({ErrorCode::kDuplicateNode, draft.stage->name_where,
                         pointer_to("", draft.stage->name),
                         "two nodes would be called '" + draft.id + "'",
                         "the data has folds, so this name is reserved for evaluating the fold: "
                         "give foreach items with other values"});
    drafts_.push_back(std::move(draft));
    options_.push_back(options_[of]);
    wires_.push_back(std::move(wires));
  }

  /// Returns the fold's output port on the stage that outputs `source`; null unless `source` is the
  /// test part of data with folds, or is derived from such a part through at most `steps` stages.
  /// Stages may depend on each other in a cycle, which is reported later.
  const Port* fold_beside(const Source& source, std::size_t steps) const {
    const Draft& draft = drafts_[source.draft];
    if (source.port->type != ArtifactType::kDataset || source.port->name != "test") return nullptr;
    const auto fold = std::ranges::find(draft.kind->outputs, "validation", &Port::name);
    if (fold == draft.kind->outputs.end()) return nullptr;
    const Value* const folds = options_[source.draft].find("folds");
    if (folds && folds->map()) return &*fold;
    for (const Wire& wire : wires_[source.draft])
      for (const Source& before : wire.sources)
        if (steps > 0 && wire.port->name == source.port->name && fold_beside(before, steps - 1))
          return &*fold;
    return nullptr;
  }

  /// Returns a valid execution order of the nodes: the recipe's order if the edges allow it.
  /// Reports cycles.
  std::vector<std::size_t> sorted() {
    enum class Mark { kUnseen, kOpen, kDone };
    std::vector<Mark> marks(drafts_.size(), Mark::kUnseen);
    std::vector<std::size_t> order, path;
    const std::function<void(std::size_t)> visit = [&](std::size_t node) {
      if (marks[node] == Mark::kDone) return;
      if (marks[node] == Mark::kOpen)
        return report_cycle({std::ranges::find(path, node), path.end()});
      marks[node] = Mark::kOpen;
      path.push_back(node);
      for (const Wire& wire : wires_[node]) {
        for (const Source& source : wire.sources) visit(source.draft);
      }
      path.pop_back();
      marks[node] = Mark::kDone;
      order.push_back(node);
    };
    for (std::size_t node = 0; node < drafts_.size(); ++node) visit(node);
    return order;
  }

  void report_cycle(const std::vector<std::size_t>& cycle) {
    std::string chain;
    for (const std::size_t node : cycle) chain += drafts_[node].id + " ← ";
    const StageSpec& stage = *drafts_[cycle.front()].stage;
    const Value* inputs = stage.options.find("inputs");
    errors_.push_back(
        {ErrorCode::kGraphCycle, inputs ? inputs->where : stage.name_where,
         pointer_to("", stage.name),
         "stages depend on each other in a cycle: " + chain + drafts_[cycle.front()].id,
         "remove one of these inputs"});
  }

  /// Removes repeated errors: the items of one foreach share most of them.
  static Diagnostics each_once(Diagnostics errors) {
    std::set<std::pair<std::string, std::string>> seen;
    std::erase_if(errors, [&](const Diagnostic& error) {
      return !seen.insert({error.pointer, error.message}).second;
    });
    return errors;
  }

  Graph build(const std::vector<std::size_t>& order) {
    Graph graph{.recipe = recipe_.name,
                .seed = recipe_.seed,
                .threads = recipe_.threads,
                .device = recipe_.device,
                .ranks = recipe_.ranks,
                .nodes = {},
                .recipe_hash = recipe_hash(recipe_.resolved),
                .determinism = recipe_.determinism,
                .collective_timeout = recipe_.collective_timeout};
    std::vector<std::size_t> position(drafts_.size());
    for (const std::size_t i : order) {
      const Draft& draft = drafts_[i];
      position[i] = graph.nodes.size();
      Node node{
          .id = draft.id,
          .stage = draft.stage->name,
          .kind = draft.kind->name,
          .options = std::move(options_[i]),
          .pointer = pointer_to("", draft.stage->name),
          .inputs = {},
          .seed = node_seed(recipe_.seed, draft.id),
          .version = draft.kind->version,
          .cacheable = draft.kind->cacheable,
          .title = node_title(*draft.stage, draft.item) + (draft.is_of_fold ? " of the fold" : "")};
      node.key_options = key_options(node, recipe_.resolved, schemas_);
      for (const Wire& wire : wires_[i]) {
        for (const Source& source : wire.sources) {
          node.inputs.push_back({wire.port->name, position[source.draft], source.port->name,
                                 source.port->type, wire.port->optional});
        }
      }
      graph.nodes.push_back(std::move(node));
    }
    return graph;
  }

  const Recipe& recipe_;
  const SchemaSet& schemas_;
  std::vector<Draft> drafts_;
  std::vector<Value> options_;            // of each draft
  std::vector<std::vector<Wire>> wires_;  // of each draft
  Diagnostics errors_;
};

}  // namespace

std::optional<Value> key_options(const Node& node, const Value& recipe, const SchemaSet& schemas) {
  Value kept = node.options;
  std::vector<std::string> path = {node.stage};
  const auto family = family_of(node.kind);
  const bool may_change = family == Family::kData || family == Family::kMemory;
  const bool is_changed = may_change && remove_safe(kept, path, recipe, schemas);
  if (!is_changed && !hides_anything(kept)) return std::nullopt;
  return from_json(to_json(kept));
}

Result<Graph> compile(const Recipe& recipe, const SchemaSet& schemas) {
  auto graph = compile_recorded(recipe, schemas);
  if (!graph) return graph;
  if (Diagnostics errors = rules_broken_by(*graph, schemas); !errors.empty()) return errors;
  return part_to_run(*std::move(graph), recipe);
}

Result<Graph> part_to_run(Graph graph, const Recipe& recipe) {
  if (recipe.only.empty()) return graph;
  auto part = only(graph, recipe.only);
  if (part) return part;
  Diagnostic error = part.errors().front();
  error.pointer = "/run/only";
  if (const Value* const option = at_key(recipe.resolved, "run.only")) error.where = option->where;
  return error;
}

Result<Graph> compile_recorded(const Recipe& recipe, const SchemaSet& schemas) {
  auto graph = Compiler(recipe, schemas).run();
  if (graph) graph->remarks = remarks_on_results(*graph, schemas);
  return graph;
}

Diagnostics rules_broken_by(const Graph& graph, const SchemaSet& schemas) {
  Diagnostics errors = broken_rules(graph, schemas);
  std::ranges::move(illegal_batch_options(graph, schemas), std::back_inserter(errors));
  return errors;
}

Diagnostics broken_rules(const Graph& graph, const SchemaSet& schemas) {
  Diagnostics errors;
  std::set<std::string> seen;  // nodes of one foreach have the same errors
  const auto add = [&](const Rule& rule, const OptionMapping& mapping) {
    const bool is_elsewhere = rule.at.starts_with(kInputsPrefix);
    const WiredOption of_input =
        is_elsewhere ? wired_option(graph, mapping.node, rule.at) : WiredOption();
    const Value& around = of_input.node ? of_input.node->options : mapping.options;
    std::string place = of_input.node ? of_input.option : rule.at;
    const Value* option = at_key(around, place);
    std::ranges::replace(place, '.', '/');
    const std::string pointer =
        (of_input.node ? of_input.node->pointer : mapping.pointer) + "/" + place;
    std::string message = filled_in(rule.message, mapping.look);
    if (!seen.insert(pointer + message).second) return;
    errors.push_back({ErrorCode::kOptionConflict, place_of(option ? *option : around), pointer,
                      std::move(message), rule.help});
  };
  visit_options(graph, schemas, [&](const OptionMapping& mapping) {
    for (const Rule& rule : mapping.schema.rules) {
      if (!holds(rule.condition, mapping.look)) add(rule, mapping);
    }
  });
  return errors;
}

}  // namespace runner
