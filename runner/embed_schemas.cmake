# Writes OUT, which defines runner::embedded_schemas() from the FILES below ROOT.
list(SORT FILES)
set(body "")
foreach(file IN LISTS FILES)
  file(READ ${ROOT}/${file} text)
  string(APPEND body "    {\"${file}\", R\"~schema~(${text})~schema~\"sv},\n")
endforeach()
file(WRITE ${OUT} "#include \"runner/parent/schema/schema.h\"

namespace runner {

std::span<const SchemaFile> embedded_schemas() {
  using namespace std::string_view_literals;  // their lengths need no steps of constant evaluation
  static constexpr SchemaFile kFiles[] = {
${body}  };
  return kFiles;
}

}  // namespace runner
")
