#include "stages/artifact/class_captions.h"

#include <torch/types.h>

#include "runner/shared/stage/config_reader.h"
#include "stages/numerics/precision_map.h"
#include "stages/text/class_text.h"

namespace stages {

std::vector<std::string> read_templates(runner::ConfigReader& reader) {
  std::vector<std::string> templates;
  reader.read("templates", templates);
  for (const std::string& one : templates) {
    if (one.find("{name}") != one.npos) continue;
    reader.fail("templates", runner::ErrorCode::kOptionConflict,
                "the template '" + one + "' has no {name}",
                "write {name} where the class name belongs");
  }
  return templates;
}

std::vector<std::string> texts_of_classes(const std::vector<std::string>& names,
                                          const std::vector<std::string>& templates) {
  std::vector<std::string> texts;
  for (const std::string& name : names) {
    for (const std::string& one : templates) texts.push_back(class_text(one, name));
  }
  return texts;
}

at::Tensor class_embeddings(const at::Tensor& texts, std::int64_t templates) {
  const ScopedPrecision full(Precision::kFp32, texts.device());
  const at::Tensor rows = texts.to(at::promote_types(texts.scalar_type(), at::kFloat));
  const at::Tensor means = rows.view({-1, templates, rows.size(1)}).mean(1);
  return means / means.norm(2, /*dim=*/1, /*keepdim=*/true);
}

}  // namespace stages
