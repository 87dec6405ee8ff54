#include "runner/parent/config/secret.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/parent/config/compose.h"
#include "runner/parent/config/interpolation.h"
#include "runner/parent/config/override.h"
#include "runner/parent/config/provenance.h"
#include "runner/parent/config/scalar.h"
#include "runner/parent/config/trial_list.h"
#include "runner/parent/config/yaml_reader.h"
#include "runner/parent/config/yaml_writer.h"
#include "tests/support/memory_file_system.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(Secrets, AreRecognizedByNameInAnyCase) {
  for (const char* name :
       {"HF_TOKEN", "API_KEY", "CLIENT_SECRET", "DB_PASSWORD", "hf_token", "ApiKey", "secret",
        "MYPASSWORDS", "KEYRING", "DB_PASS", "dbpass", "MYSQL_PASSWD", "passphrase", "HTTP_AUTH",
        "Authorization", "OAUTH2", "AWS_CREDENTIALS"}) {
    EXPECT_TRUE(names_a_secret(name)) << name;
  }
  for (const char* name : {"HOME", "OMP_NUM_THREADS", "PASSES", "PASS_COUNT", "bypass", "author",
                           "AUTHORS", "TOKE", ""})
    EXPECT_FALSE(names_a_secret(name)) << name;
}

TEST(SecretTexts, AreHiddenInMessages) {
  const Value inner{Value::List{{std::string("swordfish"), {}, "***"}}, {}};
  const Value recipe{Value::List{{std::string("hunter2"), {}, "***"},
                                 {std::string("/srv/hunter2"), {}, "${oc.env:KEY_FOLDER}"},
                                 {std::string("1"), {}, "***"},
                                 {std::string("images"), {}},
                                 inner},
                     {}};
  const SecretTexts secrets(recipe);
  EXPECT_EQ(secrets.hidden_in("making images in '/srv/hunter2'"),
            "making images in '${oc.env:KEY_FOLDER}'");
  EXPECT_EQ(secrets.hidden_in("hunter2hunter2, swordfish, 1"), "******, ***, 1");
  EXPECT_EQ(secrets.hidden_in(""), "");
  Diagnostic found{ErrorCode::kStageFailed, {}, "/data", "no swordfish", "make hunter2"};
  found.notes.push_back({{}, "it printed: hunter2"});
  const Diagnostic hidden = secrets.hidden_in(found);
  EXPECT_EQ(hidden.message, "no ***");
  EXPECT_EQ(hidden.help, "make ***");
  EXPECT_EQ(hidden.notes.at(0).message, "it printed: ***");
  EXPECT_EQ(SecretTexts().hidden_in("hunter2"), "hunter2");
}

TEST(Secrets, AreRecordedAsTheirInterpolation) {
  for (const std::string name :
       {"HF_TOKEN", "API_KEY", "CLIENT_SECRET", "DB_PASSWORD", "my_password"}) {
    Sources sources;
    const std::string written = "plain: ${oc.env:" + name + "}\ninside: user:${oc.env:" + name +
                                "}@host\nfallback: ${oc.env:UNSET_" + name + ",none}\n" +
                                "decoded: ${oc.decode:${oc.env:" + name + "}}\n" +
                                "copy: ${plain}\n";
    const auto recipe = read_yaml(sources.add("a.yaml", written));
    ASSERT_TRUE(recipe);
    Diagnostics found;
    const Environment environment = [&](const std::string& asked) {
      return asked == name ? std::optional<std::string>("hunter2") : std::nullopt;
    };
    const Value resolved =
        resolve_interpolations(*recipe, {kWithoutSchema, environment, {}}, found);
    EXPECT_TRUE(found.empty());
    EXPECT_EQ(*resolved.find("plain")->reveal(), "hunter2");
    EXPECT_EQ(*resolved.find("inside")->reveal(), "user:hunter2@host");
    EXPECT_EQ(write_yaml(resolved).find("hunter2"), std::string::npos) << write_yaml(resolved);
  }
}

TEST(Secrets, AreNotShownAsTyped) {
  EXPECT_EQ(without_secrets("tracker.api_key=geheim"), "tracker.api_key=***");
  EXPECT_EQ(without_secrets("+Auth.PASSWORD=geheim"), "+Auth.PASSWORD=***");
  EXPECT_EQ(without_secrets("hf_token=geheim"), "hf_token=***");
  for (const char* kept :
       {"train.epochs=3", "model.tokenizer=clip", "~token", "train.tags=[key,token]"})
    EXPECT_EQ(without_secrets(kept), kept);
}

TEST(Secrets, MappingsAndRowsHideTheirSecrets) {
  EXPECT_EQ(without_secrets("+vars={api_key: geheim, n: 1, deep: [{password: geheim}]}"),
            "+vars={api_key:***,n:1,deep:[{password:***}]}");
  EXPECT_EQ(without_secrets("+vars.login={user: me, password: geheim}"),
            "+vars.login={user:me,password:***}");
  EXPECT_EQ(without_secrets("sweep.params={vars.token: [geheim]}"),
            "sweep.params={vars.token:[***]}");
  EXPECT_THAT(without_secrets("all=zip(vars.token=[geheim,other], seed=[1,2])"),
              Not(HasSubstr("geheim")));
}

/// A recipe with its secrets written in the file.
class ComposedSecrets : public testing::Test {
 protected:
  ComposedSecrets() {
    files_.files = {
        {"a.yaml",
         "aliases: {login: vars.password, every: [vars.hub_token, vars.note]}\n"
         "vars: {api_key: geheim, login: {secret: [geheim]}, note: kept, max_tokens: 77,\n"
         "  env_key: '${oc.env:MY_TOKEN}'}\n"
         "copy: 'x-${vars.api_key}'\n"
         "sweep: {params: {+vars.token: [geheim, geheim2]}}\n"}};
  }

  Composer open(std::vector<std::string> overrides) {
    ComposeRequest request{"a", std::move(overrides), {}};
    request.config_folders = {""};
    request.environment = [](const std::string&) { return std::optional<std::string>("geheim"); };
    return *Composer::open(std::move(request), files_, kWithoutSchema, sources_);
  }

  MemoryFileSystem files_;
  Sources sources_;
};

TEST_F(ComposedSecrets, RecipeSecretsAreNotRecorded) {
  Composer composer = open({});
  const auto composition = composer.compose_once();
  ASSERT_TRUE(composition);
  EXPECT_THAT(write_yaml(composition->unresolved), Not(HasSubstr("geheim")));
  for (const Value& layer : composition->layers)
    EXPECT_THAT(write_yaml(layer), Not(HasSubstr("geheim")));
  const auto resolved = composer.resolve(*composition);
  ASSERT_TRUE(resolved);
  EXPECT_THAT(write_yaml(*resolved), Not(HasSubstr("geheim")));
  EXPECT_THAT(write_yaml(*resolved),
              HasSubstr("note: kept\n  max_tokens: 77\n  env_key: ${oc.env:MY_TOKEN}\n"));
  EXPECT_EQ(*at_key(*resolved, "vars.api_key")->reveal(), "geheim");
  EXPECT_EQ(*at_key(*resolved, "copy")->reveal(), "x-geheim");
}

TEST_F(ComposedSecrets, TypedSecretsAreNotRecorded) {
  Composer composer = open({"+vars.more={api_key: geheim}", "+login=geheim", "+vars.n=1"});
  const auto composition = composer.compose_once();
  ASSERT_TRUE(composition);
  EXPECT_THAT(composition->typed,
              ElementsAre("+vars.more={api_key:***}", "+login=***", "+vars.n=1"));
  EXPECT_THAT(write_yaml(composition->unresolved), Not(HasSubstr("geheim")));
  const auto found = writes(composition->layers, composition->overrides, "vars.more");
  EXPECT_THAT(provenance_text("vars.more", nullptr, std::nullopt, found), Not(HasSubstr("geheim")));
}

std::string recorded(const std::string& vars) {
  MemoryFileSystem files;
  files.files = {{"a.yaml", "vars: {" + vars + "}\ncopy: 'x-${vars.password}'\n"}};
  ComposeRequest request{"a", {}, {}};
  request.config_folders = {""};
  request.environment = [](const std::string&) { return std::optional<std::string>("geheim"); };
  Sources sources;
  Composer composer = *Composer::open(std::move(request), files, kWithoutSchema, sources);
  const auto composition = composer.compose_once();
  const auto resolved = composition ? composer.resolve(*composition) : Result<Value>(Diagnostics{});
  return resolved ? write_yaml(composition->unresolved) + write_yaml(*resolved) : "not resolved";
}

TEST(Secrets, MayConsistOfDigits) {
  for (const char* name : {"password", "db_pass", "client_secret"})
    EXPECT_THAT(recorded(std::string("password: a, ") + name + "2: 1, " + name + ": 1234"),
                Not(HasSubstr("1234")))
        << name;
  for (const char* name : {"api_key", "token"})
    EXPECT_THAT(recorded(std::string("password: a, ") + name + ": 12345678"),
                Not(HasSubstr("12345678")))
        << name;
  EXPECT_THAT(recorded("password: 12345678"),
              testing::AllOf(Not(HasSubstr("12345678")), HasSubstr("copy: x-${")));
  for (const char* kept : {"max_tokens: 1000000", "pad_token: 50256", "key_size: 64",
                           "pass_count: 3", "password_length: 12"})
    EXPECT_THAT(recorded(std::string("password: a, ") + kept), HasSubstr(kept)) << kept;
}

TEST(Secrets, InterpolationIsShownButNotTheTextAroundIt) {
  const std::string alone = recorded("password: '${oc.env:PLAIN}'");
  EXPECT_THAT(alone, HasSubstr("password: ${oc.env:PLAIN}\n"));
  EXPECT_THAT(alone, Not(HasSubstr("geheim")));
  EXPECT_THAT(recorded("password: '${oc.env:PLAIN,null}'"),
              HasSubstr("password: ${oc.env:PLAIN,null}\n"));
  for (const char* mixed : {"'hunter${vars.n}'", "'${vars.n}hunter'", "'${oc.env:PLAIN,hunter2}'",
                            "'${vars.n}${vars.n}hunter'", "'hunter\\${oc.env:PLAIN}'",
                            "'${oc.env:A,${oc.env:B,hunter}}'"}) {
    const std::string text = recorded(std::string("n: 2, password: ") + mixed);
    EXPECT_THAT(text, testing::AllOf(HasSubstr("password: '***'\n"), Not(HasSubstr("hunter"))))
        << mixed;
    EXPECT_THAT(text, Not(HasSubstr("geheim"))) << mixed;
  }
}

TEST(SecretTexts, AreHiddenInPartsOfDerivedStrings) {
  const Value recipe{
      Value::List{{std::string("a hunter2 {name}"), {}, "a ${oc.env:MY_TOKEN} {name}"},
                  {std::string("7"), {}, "${oc.env:PIN_KEY,7}"},
                  {std::string("x plain y"), {}, "x ${oc.env:PLAIN} y"}},
      {}};
  const auto environment = [](const std::string& name) -> std::optional<std::string> {
    if (name == "MY_TOKEN") return "hunter2";
    if (name == "PLAIN") return "plain";
    return std::nullopt;
  };
  EXPECT_EQ(SecretTexts(recipe, environment).hidden_in("captions: 'a hunter2 rose', 'a plain one'"),
            "captions: 'a ${oc.env:MY_TOKEN} rose', 'a plain one'");
  nlohmann::ordered_json answer = {{"reuse", {{{"why", "no 'hunter2'"}, {"count", 2}}}}};
  SecretTexts(recipe, environment).hide_in(answer);
  EXPECT_EQ(answer.dump(), R"({"reuse":[{"why":"no '${oc.env:MY_TOKEN}'","count":2}]})");
}

TEST(Secrets, PasswordInAUrlIsASecretInEveryOption) {
  Value recipe{
      Value::Map{{"train",
                  {},
                  {Value::Map{{"warm_start", {}, {std::string("http://me:hunter2@h/x"), {}}}}, {}}},
                 {"data", {}, {Value::Map{{"root", {}, {std::string("http://h/x"), {}}}}, {}}}},
      {}};
  hide_secrets(recipe);
  const Value& start = *recipe.find("train")->find("warm_start");
  EXPECT_EQ(start.secret_as, "http://me:***@h/x");
  EXPECT_EQ(recipe.find("data")->find("root")->secret_as, "");
  EXPECT_TRUE(is_lost_secret({start.secret_as, {}})) << "a record of it does not hold the password";
  EXPECT_EQ(without_secrets("train.warm_start=http://me:hunter2@h/x"),
            "train.warm_start=http://me:***@h/x");
}

TEST(Secrets, AreRejectedInPublicKeys) {
  const Value secret{std::string("hunter2"), {}, "${oc.env:TOKEN}"};
  const Value lines{Value::List{{std::string("module load cuda"), {}}, secret}, {}};
  const Value recipe{
      Value::Map{{"name", {}, secret}, {"sweep", {}, {Value::Map{{"setup", {}, lines}}, {}}}}, {}};
  const Diagnostics found = shown_secrets(recipe, {"name", "notice", "sweep"});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].pointer, "/name");
  EXPECT_EQ(found[0].message, "this comes from a secret (${oc.env:TOKEN}), but would be public");
  EXPECT_EQ(found[1].pointer, "/sweep/setup/1");
}

TEST_F(ComposedSecrets, ValuesOfASweepAreNotShown) {
  const Composer composer =
      open({"+vars.token=geheim,geheim2", "+every=choice(geheim,3)", "seed=1,2"});
  const auto jobs = TrialList::make(composer.overrides(), composer.configs(), {});
  ASSERT_TRUE(jobs);
  ASSERT_EQ(jobs->size(), 8u);
  std::string shown;
  for (const Override& override : (*jobs)[0]) shown += override_text(override) + " ";
  EXPECT_EQ(shown, "+vars.token=*** +vars.hub_token=*** +vars.note=geheim seed=1 ");
  EXPECT_EQ(*(*jobs)[0][0].value->reveal(), "geheim");
}

TEST(Secrets, AreReadableOnlyThroughReveal) {
  const Value secret{std::string("swordfish"), {}, "***"}, open{std::string("swordfish"), {}};
  EXPECT_EQ(*secret.text(), "***");
  EXPECT_EQ(*secret.reveal(), "swordfish");
  EXPECT_EQ(scalar_text(secret), "***");
  EXPECT_EQ(revealed_text(secret), "swordfish");
  EXPECT_EQ(scalar_text({std::int64_t{471108}, {}, "***"}), "***");
  EXPECT_EQ(*open.text(), "swordfish");
  EXPECT_TRUE(secret.says("swordfish"));
  EXPECT_FALSE(secret.says("***"));
  EXPECT_TRUE(same_data(secret, open));
  EXPECT_EQ((Value{Value::List{}, {}, "***"}.text()), nullptr);
}

}  // namespace
}  // namespace runner
