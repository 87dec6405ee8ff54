#include "runner/parent/config/yaml_reader.h"

#include <algorithm>
#include <sstream>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include "runner/parent/config/document_builder.h"
#include "runner/shared/text/utf8.h"

namespace runner {
namespace {

Location place(const SourceText& source, std::size_t offset) {
  const std::string_view before = std::string_view(source.contents).substr(0, offset);
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  const auto line = 1 + std::ranges::count(before, '\n');
  return {&source, static_cast<int>(line), static_cast<int>(offset - line_start) + 1};
}

/// Converts a scalar from yaml-cpp to UTF-8. yaml-cpp reads the escapes \N and \_, U+0085 and
/// U+00A0, as single bytes; the source itself is UTF-8.
std::string in_utf8(std::string_view text) {
  std::string result;
  while (const auto byte = invalid_utf8(text)) {
    result += text.substr(0, *byte);
    result += {'\xc2', text[*byte]};
    text.remove_prefix(*byte + 1);
  }
  return result += text;
}

/// Passes yaml-cpp's events to the builder. We use events rather than nodes, since they show
/// duplicate keys, anchors and tags, and let us limit depth and size.
class Events : public YAML::EventHandler {
 public:
  Events(const SourceText& source, DocumentBuilder& builder) : source_(source), builder_(builder) {}

  void OnDocumentStart(const YAML::Mark& mark) override { builder_.start_document(at(mark)); }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    builder_.null(at(mark), anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    builder_.alias(at(mark), anchor);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    builder_.scalar(at(mark), tag, in_utf8(text), anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    builder_.open({Value::List{}, at(mark)}, tag, anchor);
  }
  void OnSequenceEnd() override { builder_.close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    builder_.open({Value::Map{}, at(mark)}, tag, anchor);
  }
  void OnMapEnd() override { builder_.close(); }

 private:
  Location at(const YAML::Mark& mark) const { return {&source_, mark.line + 1, mark.column + 1}; }

  const SourceText& source_;
  DocumentBuilder& builder_;
};

/// Returns the offset of the first control character; nullopt if there is none. yaml-cpp would
/// treat byte 4 as the end of the file, and misparses others.
std::optional<std::size_t> control_character(std::string_view text) {
  const auto is_control = [](unsigned char c) {
    return (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f;
  };
  const auto found = std::ranges::find_if(text, is_control);
  if (found == text.end()) return std::nullopt;
  return found - text.begin();
}

/// Returns the offset of a bracket that is nested far deeper than we accept; nullopt if there is
/// none. This is checked first because yaml-cpp's scanner would store all open brackets. Brackets
/// in comments and strings are counted too, so the limit is generous.
std::optional<std::size_t> hopeless_nesting(std::string_view text) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[' || text[i] == '{') ++depth;
    if ((text[i] == ']' || text[i] == '}') && depth > 0) --depth;
    if (depth > 1000) return i;
  }
  return std::nullopt;
}

Diagnostic syntax_error(const SourceText& source, const YAML::Exception& exception) {
  const YAML::Mark& mark = exception.mark;
  const Location where =
      mark.is_null() ? Location{&source, 1, 1} : Location{&source, mark.line + 1, mark.column + 1};
  std::string message = "cannot read the YAML: " + exception.msg;
  std::ranges::replace(message, '\n', ' ');
  const std::size_t offset =
      std::min<std::size_t>(mark.is_null() ? 0 : mark.pos, source.contents.size());
  const std::size_t start = std::string_view(source.contents).substr(0, offset).rfind('\n') + 1;
  const std::string_view line =
      std::string_view(source.contents).substr(start, source.contents.find('\n', start) - start);
  std::string help;
  if (line.find_first_not_of(" \t") != line.find_first_not_of(' '))
    help = "indent with spaces, not with tabs";
  if (line.find("${") != std::string_view::npos)
    help = "inside [...] and {...} an interpolation must be quoted: '${a.b}'";
  const bool unquoted_mandatory = line.find("???") != std::string_view::npos &&
                                  line.find_first_of("[{") != std::string_view::npos;
  if (unquoted_mandatory) help = "inside [...] and {...} the mark ??? must be quoted";
  return {ErrorCode::kYamlSyntax, where, "", std::move(message), std::move(help)};
}

}  // namespace

Result<Value> read_yaml(const SourceText& source, Diagnostics* warnings) {
  std::string_view text = source.contents;
  if (const auto offset = invalid_utf8(text)) {
    return Diagnostic{ErrorCode::kInvalidUtf8, place(source, *offset), "", "the text is not UTF-8",
                      "save the file as UTF-8"};
  }
  if (const auto offset = control_character(text)) {
    return Diagnostic{ErrorCode::kYamlSyntax, place(source, *offset), "",
                      "the file contains a control character",
                      "remove it, or write it as an escape in double quotes"};
  }
  if (const auto offset = hopeless_nesting(text)) {
    return Diagnostic{ErrorCode::kNestingTooDeep, place(source, *offset), "",
                      "values are nested more than 64 levels deep", ""};
  }
  Diagnostics errors, found;
  DocumentBuilder builder(errors, found);
  try {
    std::istringstream stream(source.contents);
    YAML::Parser parser(stream);
    Events events(source, builder);
    while (parser.HandleNextDocument(events)) {
    }
  } catch (const DocumentBuilder::Stop&) {
  } catch (const YAML::Exception& exception) {
    errors.push_back(syntax_error(source, exception));
  }
  if (!errors.empty()) return errors;
  if (warnings) warnings->insert(warnings->end(), found.begin(), found.end());
  Value root = builder.take();
  return root.is_null() ? Value{Value::Map{}, {&source, 1, 1}} : std::move(root);
}

}  // namespace runner
