#pragma once

#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace runner {

/// Every keyword that a schema may use: a subset of draft-07 and our own, which begin with x-.
enum class Keyword {
  kSchema,
  kId,
  kRef,
  kComment,
  kTitle,
  kDescription,
  kDefault,
  kExamples,
  kDefinitions,
  kType,
  kEnum,
  kConst,
  kProperties,
  kRequired,
  kAdditionalProperties,
  kPatternProperties,
  kPropertyNames,
  kMinProperties,
  kMaxProperties,
  kItems,
  kMinItems,
  kMaxItems,
  kUniqueItems,
  kMinLength,
  kMaxLength,
  kPattern,
  kMinimum,
  kMaximum,
  kExclusiveMinimum,
  kExclusiveMaximum,
  kMultipleOf,
  kAnyOf,
  kOneOf,
  kAllOf,
  kNot,
  kVersion,
  kInputs,
  kOutputs,
  kMetrics,
  kUnit,
  kCacheable,
  kPython,
  kCoupling,
  kMixesSamples,
  kSpansTraining,
  kResume,
  kRules,
  kKinds,
  kDefaultKind,
  kConfig,
  kEffectiveWhen,
  kFile,
  kOtherNames,
  kRemark,
};

/// What a keyword's value must be.
enum class Needs {
  kAnything,
  kText,
  kFlag,
  kCount,
  kNumber,
  kPositiveNumber,
  kTypes,
  kList,
  kValues,
  kUniqueTexts,
  kExpression,
  kSchema,
  kSchemaOrSchemas,
  kSchemas,
  kNamedSchemas,
  kSchemasByExpression,
  kPorts,
  kResumeClass,
  kCoupling,
  kRules,
  kEffects,
  kFileRule,
  kRemark,
};

struct KeywordRule {
  std::string_view name;
  Keyword keyword;
  Needs needs;
};

/// Returns the rule for a keyword; null if the keyword is not supported.
const KeywordRule* keyword_rule(std::string_view name);

/// True if `json` has the required form. Subschemas, expressions and ports are checked by their
/// readers.
bool fits(Needs needs, const nlohmann::ordered_json& json);

/// Describes the required form: "a list of different strings".
std::string_view phrase(Needs needs);

/// Returns the JsonType named `name`, such as "integer"; 0 if there is none.
unsigned type_bit(std::string_view name);

}  // namespace runner
