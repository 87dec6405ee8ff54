#include "runner/config/resolvers.h"

#include <gtest/gtest.h>

#include "runner/config/interpolation.h"
#include "runner/config/yaml_reader.h"
#include "runner/config/yaml_writer.h"

namespace runner {
namespace {

TEST(Secrets, AreNamedByFourWordsInAnyCase) {
  for (const char* name : {"HF_TOKEN", "API_KEY", "CLIENT_SECRET", "DB_PASSWORD", "hf_token", "ApiKey", "secret",
                           "MYPASSWORDS", "KEYRING"}) {
    EXPECT_TRUE(names_a_secret(name)) << name;
  }
  for (const char* name : {"HOME", "OMP_NUM_THREADS", "PASS", "TOKE", ""}) EXPECT_FALSE(names_a_secret(name)) << name;
}

TEST(Secrets, AreRecordedAsTheirInterpolationWhicheverWordNamesThem) {
  for (const std::string name : {"HF_TOKEN", "API_KEY", "CLIENT_SECRET", "DB_PASSWORD", "my_password"}) {
    Sources sources;
    const std::string written = "plain: ${oc.env:" + name + "}\ninside: user:${oc.env:" + name +
                                "}@host\nfallback: ${oc.env:UNSET_" + name + ",none}\n" +
                                "decoded: ${oc.decode:${oc.env:" + name + "}}\n" + "copy: ${plain}\n";
    const auto recipe = read_yaml(sources.add("a.yaml", written));
    ASSERT_TRUE(recipe);
    Diagnostics found;
    const Environment environment = [&](const std::string& asked) {
      return asked == name ? std::optional<std::string>("hunter2") : std::nullopt;
    };
    const Value resolved = resolve_interpolations(*recipe, {{}, environment, {}}, found);
    EXPECT_TRUE(found.empty());
    EXPECT_EQ(*resolved.find("plain")->text(), "hunter2");
    EXPECT_EQ(*resolved.find("inside")->text(), "user:hunter2@host");
    EXPECT_EQ(write_yaml(resolved).find("hunter2"), std::string::npos) << write_yaml(resolved);
  }
}

}  // namespace
}  // namespace runner
