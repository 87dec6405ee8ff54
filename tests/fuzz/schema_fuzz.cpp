// Validation, defaults and compilation: the input is a recipe.

#include "runner/parent/cli/prepare.h"
#include "runner/parent/compile/compile.h"
#include "runner/parent/compile/recipe.h"
#include "runner/parent/config/yaml_reader.h"
#include "tests/fuzz/fuzz.h"

using namespace runner;

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const SchemaSet& schemas = shipped_schemas();
  const SourceText source{"a.yaml", text_of(bytes, size)};
  Result<Value> read = read_yaml(source);
  if (!read || !read->map() || !schemas.validate(*read).empty()) return 0;
  const Result<Recipe> recipe = make_recipe(*std::move(read), schemas);
  if (recipe) (void)compile(*recipe, schemas);
  return 0;
}
