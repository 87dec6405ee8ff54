#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/stage/config_reader.h"

namespace stages {

/// Facts about images that captions can mention.
struct ImageFacts {
  std::vector<std::string> fields;  ///< "make", "model"
  /// Each row has a string for every field; ImageFile::facts is the index of an image's row.
  std::vector<std::vector<std::string>> rows;
};

/// A caption template: "a photo of a {make} {model} car" has two fields. "{{" and "}}" are escaped
/// braces.
class CaptionTemplate {
 public:
  /// Throws std::invalid_argument if the braces are malformed. The message completes "the caption
  /// cannot be read: …".
  explicit CaptionTemplate(std::string_view text);

  const std::string& text() const { return text_; }
  /// The field names in order of appearance; a repeated field is listed each time.
  const std::vector<std::string>& fields() const { return fields_; }
  /// Returns the text with each field replaced by its value. `values` must contain one value for
  /// each of fields().
  std::string filled(std::span<const std::string_view> values) const;

 private:
  std::string text_;
  // `literals_` holds the text before each field and after the last one.
  std::vector<std::string> literals_, fields_;
};

/// The captions of the images in a list.
struct Captions {
  /// The distinct captions; UTF-8 without control characters.
  std::vector<std::string> texts;
  /// For each row of facts and each template, the index of the caption in `texts`.
  std::vector<std::vector<std::int64_t>> of;
};

/// Fills `templates` from `facts`, which must contain every field used in the templates. Texts are
/// ordered by template, then by row.
Captions compose_captions(std::span<const CaptionTemplate> templates, const ImageFacts& facts);

/// Reads the `caption` option, which holds any number of templates. Reports malformed braces to
/// `reader`.
std::vector<CaptionTemplate> read_captions(runner::ConfigReader& reader);

/// Like the function above, but also reports fields that are not in `fields` to `reader`.
std::vector<CaptionTemplate> read_captions(runner::ConfigReader& reader,
                                           const std::vector<std::string>& fields);

/// Returns an error at "/caption" for each template with a field that is not in `fields`.
runner::Diagnostics unknown_fields(std::span<const CaptionTemplate> templates,
                                   std::span<const std::string> fields);

}  // namespace stages
