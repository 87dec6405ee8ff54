#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/schema/schema_node.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/value/value.h"

namespace runner {

/// A typed, named opening of a kind, from x-inputs or x-outputs.
struct Port {
  std::string name;
  ArtifactType type;
  bool optional = false;  ///< inputs only: may stay unwired
  bool many = false;      ///< inputs only: gathers every matching output
};

struct KeyChoices;
/// Sees a mapping whose schema says x-config; `weights` is the option that it names.
using VisitConfigured =
    std::function<void(Value& mapping, const std::string& weights, const std::string& pointer)>;

struct SchemaNode;
enum class ResumeClass;

/// A metric, or several, that a kind records, from x-metrics.
struct DeclaredMetric {
  std::string name;             ///< "validation/loss"; a * stands for any text, "evaluate/auc/*"
  bool is_conditional = false;  ///< only with some options, or with some data

  bool covers(std::string_view metric) const;
};

/// What a schema says about one kind of stage.
struct Kind {
  std::string name;     ///< "train.supervised"
  std::string family;   ///< "train"
  std::string summary;  ///< one line
  int version = 1;      ///< counted up when results change
  std::vector<Port> inputs, outputs;
  bool cacheable = false;                    ///< x-cacheable: reused by default
  std::vector<DeclaredMetric> metrics = {};  ///< x-metrics
  std::string file;                          ///< "train/supervised.schema.json"
};

/// One schema file: its path below schemas/ and its text.
struct SchemaFile {
  std::string_view path;
  std::string_view text;
};

/// The schemas built into this program, sorted by path. Generated from schemas/ at build time.
std::span<const SchemaFile> embedded_schemas();

/// The contract between recipes and stages: every schema, checked on loading.
///
/// The subset of draft-07 understood is listed in schema_keyword.cpp; a schema with any other
/// keyword is refused. Our own keywords: x-version, x-inputs, x-outputs, x-metrics, x-unit,
/// x-cacheable, x-coupling, x-mixes-samples, x-spans-training, x-resume, x-rules, x-config (of a
/// mapping: the option that names weights, whose config.json has a say in the others), x-file (of
/// an option: what has to be where it leads), x-effective-when (of an option: under which
/// conditions it has an effect), and x-kinds, which validates a mapping by the schema that its
/// `kind` names: `x-kinds: "*"` takes stages (kind: train.supervised is the file
/// train/supervised.schema.json), `x-kinds: "train/optimizer"` the files of that folder (kind:
/// adamw is train/optimizer/adamw.schema.json). `x-default-kind` beside it is the kind of a mapping
/// that names none.
class SchemaSet {
 public:
  /// Reads all files and checks them, and their defaults.
  static Result<SchemaSet> load(std::span<const SchemaFile> files);
  /// The same of files that load() accepts, and whose texts live on: each is read when it is first
  /// needed, so that a short command reads few. Not for several threads.
  static SchemaSet open(std::span<const SchemaFile> files);
  SchemaSet(SchemaSet&&) noexcept;
  SchemaSet& operator=(SchemaSet&&) noexcept;
  ~SchemaSet();

  /// Checks `value` against recipe.schema.json and fills in every default: here and nowhere else.
  /// Returns all errors at once, in source order. Values filled in have the Location of their
  /// mapping.
  Diagnostics validate(Value& recipe) const;

  /// The same against any file, or a definition in it: "common.schema.json#/definitions/device".
  Diagnostics validate(Value& value, std::string_view file) const;

  /// Calls `visit` for each mapping in `recipe`, validated, whose schema says x-config.
  void visit_configured(Value& recipe, const VisitConfigured& visit) const;

  /// All kinds, sorted by name; those of sub-mappings (a backbone, say) are not stages and not
  /// among them.
  std::span<const Kind> kinds() const;
  const Kind* kind(std::string_view name) const;
  /// The kind's name nearest to `name`, for "did you mean"; empty when none is near.
  std::string nearest_kind(std::string_view name) const;

  /// The kinds of sub-mappings in a folder: {"adam", "adamw", "sgd"} for "train/optimizer".
  std::vector<std::string> sub_kinds(std::string_view folder) const;
  /// The folders that hold such kinds: {"model/backbone", "train/optimizer"}.
  std::vector<std::string> sub_kind_folders() const;

  /// Is `path` ("train", "optimizer", "learning_rate") a key that the schemas declare at that place
  /// of `recipe` (whose stages name their kinds)? Its default if so (null Value when it has none);
  /// nullopt if not.
  std::optional<Value> declared(const Value& recipe, std::span<const std::string> path) const;

  /// Whether a run of `recipe` may continue with another value at `path`: what x-resume says there
  /// or nearest above it.
  ResumeClass resume_class(const Value& recipe, std::span<const std::string> path) const;

  /// The keys that the schemas declare in the mapping at `path` of `recipe`, for "did you mean".
  std::vector<std::string> declared_keys(const Value& recipe,
                                         std::span<const std::string> path) const;

  /// May a single value stand at `path` of `recipe`, where nothing does? For advice.
  bool may_add(const Value& recipe, std::span<const std::string> path) const;

  /// What may stand at `path` of `recipe`, as far as it can be listed; for completion.
  KeyChoices choices(const Value& recipe, std::span<const std::string> path) const;

  /// The schema file of a kind, or by its path without the ending: "recipe",
  /// "train/optimizer/adam". Null: none.
  const nlohmann::ordered_json* document(std::string_view kind) const;

  /// The schema in `file` ("train/supervised.schema.json"), for code that walks it. Null: none.
  const SchemaNode* node(std::string_view file) const;

 private:
  struct Store;
  explicit SchemaSet(std::unique_ptr<Store> store);
  std::unique_ptr<Store> store_;
};

/// Calls `visit` for each such mapping in `value`, which is valid by `schema` and has its defaults
/// filled in.
void visit_configured(Value& value, const SchemaNode& schema, const VisitConfigured& visit);

}  // namespace runner
