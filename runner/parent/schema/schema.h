#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/keys/recipe_keys.h"
#include "runner/parent/schema/schema_node.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/value/value.h"

namespace runner {

/// A typed, named input or output of a kind, from x-inputs or x-outputs.
struct Port {
  std::string name;
  ArtifactType type;
  bool optional = false;  ///< inputs only: may be left unwired
  bool many = false;      ///< inputs only: collects every matching output
};

struct KeyChoices;
/// Called for a mapping with x-config in its schema; `weights` is the option named by x-config.
using VisitConfigured =
    std::function<void(Value& mapping, const std::string& weights, const std::string& pointer)>;

struct SchemaNode;
enum class ResumeClass;

/// A metric that a kind records, or a pattern for several, from x-metrics.
struct DeclaredMetric {
  /// "validation/loss"; a * stands for any text, as in "evaluate/auc/*", and a # for a number.
  std::string name;
  bool is_conditional = false;  ///< recorded only with certain options or data

  bool covers(std::string_view metric) const;
};

/// A kind of stage, as declared by its schema.
struct Kind {
  std::string name;     ///< "train.supervised"
  std::string family;   ///< "train"
  std::string summary;  ///< one line
  int version = 1;      ///< incremented when results change
  std::vector<Port> inputs, outputs;
  bool cacheable = false;  ///< x-cacheable: results are reused by default
  /// x-python: the options that name Python code, "entry" or "towers/tokenizer/entry"; empty: none.
  std::vector<std::string> python_entries = {};
  std::vector<DeclaredMetric> metrics = {};  ///< x-metrics
  std::string file;                          ///< "train/supervised.schema.json"

  bool runs_python() const { return !python_entries.empty(); }
};

/// One schema file: its path below schemas/ and its text.
struct SchemaFile {
  std::string_view path;
  std::string_view text;
};

/// Returns the schemas built into this program, sorted by path. Generated from schemas/ at build
/// time.
std::span<const SchemaFile> embedded_schemas();

/// The contract between recipes and stages: all schemas, checked on loading.
///
/// schema_keyword.cpp lists the supported subset of draft-07; schemas with any other keyword are
/// rejected. Our own keywords: x-version, x-inputs, x-outputs, x-metrics, x-unit, x-cacheable,
/// x-python, x-coupling, x-mixes-samples, x-spans-training, x-resume, x-rules, x-config (of a
/// mapping: the option that names weights; their config.json affects the other options), x-file (of
/// an option: what must exist at its path), x-effective-when (of an option: the conditions under
/// which it has an effect), x-remark (of a string option: a remark about the results of runs that
/// set it), x-other-names (of a key in one of the recipe's own mappings, such as device:
/// OtherName), and x-kinds, which validates a mapping against the schema named by its `kind`:
/// `x-kinds: "*"` accepts stages (kind: train.supervised is the file train/supervised.schema.json),
/// `x-kinds: "train/optimizer"` the files of that folder (kind: adamw is
/// train/optimizer/adamw.schema.json). `x-default-kind`, next to x-kinds, is the kind of a mapping
/// that does not name one.
class SchemaSet final : public RecipeKeys {
 public:
  /// Reads all files and checks them and their defaults.
  static Result<SchemaSet> load(std::span<const SchemaFile> files);
  /// Opens files that load() accepts. Their texts must stay alive, since each file is read only
  /// when first needed, so that short commands read few of them. Not thread-safe.
  static SchemaSet open(std::span<const SchemaFile> files);
  SchemaSet(SchemaSet&&) noexcept;
  SchemaSet& operator=(SchemaSet&&) noexcept;
  ~SchemaSet() override;

  // The RecipeKeys interface, implemented using recipe.schema.json.
  std::optional<Value> declared(const Value& recipe, Path path) const override;
  std::vector<std::string> declared_keys(const Value& recipe, Path path) const override;
  bool may_add(const Value& recipe, Path path) const override;
  std::vector<std::string> other_kinds(const Value& recipe, Path path) const override;
  std::vector<OtherName> other_names() const override;
  Diagnostics validate(Value& recipe) const override;

  /// Like validate() above, but for the schema in any file, or for a definition in it:
  /// "common.schema.json#/definitions/device".
  Diagnostics validate(Value& value, std::string_view file) const;

  /// Calls `visit` for each mapping with x-config in its schema. `recipe` must be validated.
  void visit_configured(Value& recipe, const VisitConfigured& visit) const;

  /// Returns all kinds of stages, sorted by name. Excludes kinds of sub-mappings, such as a
  /// backbone.
  std::span<const Kind> kinds() const;
  const Kind* kind(std::string_view name) const;
  /// Returns the name of the kind closest to `name`, for "did you mean"; empty if none is close.
  std::string nearest_kind(std::string_view name) const;

  /// Returns the kinds of sub-mappings in a folder: {"adam", "adamw", "sgd"} for "train/optimizer".
  std::vector<std::string> sub_kinds(std::string_view folder) const;
  /// Returns the folders with kinds of sub-mappings: {"model/backbone", "train/optimizer"}.
  std::vector<std::string> sub_kind_folders() const;

  /// Says whether a run of `recipe` may continue with a different value at `path`, according to the
  /// x-resume there or at its nearest ancestor.
  ResumeClass resume_class(const Value& recipe, Path path) const;

  /// Returns the possible values at `path` of `recipe`, if they can be listed; for completion.
  KeyChoices choices(const Value& recipe, Path path) const;

  /// Returns the schema of a kind, or of a file by its path without the extension: "recipe",
  /// "train/optimizer/adam". Null if there is none.
  const nlohmann::ordered_json* document(std::string_view kind) const;

  /// Returns the schema in `file` ("train/supervised.schema.json"), for code that walks it. Null if
  /// there is none.
  const SchemaNode* node(std::string_view file) const;

 private:
  struct Store;
  explicit SchemaSet(std::unique_ptr<Store> store);
  std::unique_ptr<Store> store_;
};

/// Calls `visit` for each mapping in `value` with x-config in its schema. `value` must be valid
/// according to `schema` and have its defaults filled in.
void visit_configured(Value& value, const SchemaNode& schema, const VisitConfigured& visit);

}  // namespace runner
