<?php // Makes the tables of FOSOAuthServerBundle 2 and FOSUserBundle 3 as their Doctrine mappings describe them, with Doctrine's
// own array type and Symfony's own hashers.
foreach (['Symfony/Component/PasswordHasher', 'Doctrine/DBAL'] as $part) require_once "$part/autoload.php";
use Doctrine\DBAL\{DriverManager, Schema\Schema, Types\Type};
use Symfony\Component\PasswordHasher\Hasher\{MessageDigestPasswordHasher, NativePasswordHasher};
$db = DriverManager::getConnection(['driver' => 'pdo_sqlite', 'path' => __DIR__ . '/app.db']);
$schema = new Schema();
$table = function (string $name, array $columns) use ($schema) {
    $table = $schema->createTable($name);
    $table->addColumn('id', 'integer', ['autoincrement' => true]);
    $table->setPrimaryKey(['id']);
    foreach ($columns as $column => $type) $table->addColumn(rtrim($column, '?'), $type, ['notnull' => substr($column, -1) !== '?']);
};
$table('fos_user', ['username' => 'string', 'username_canonical' => 'string', 'enabled' => 'boolean', 'salt?' => 'string', 'password' => 'string', 'roles' => 'array']);
$table('oauth2_clients', ['random_id' => 'string', 'redirect_uris' => 'array', 'secret?' => 'string', 'allowed_grant_types' => 'array']);
foreach (['access', 'refresh'] as $kind)
    $table("oauth2_{$kind}_tokens", ['client_id' => 'integer', 'user_id?' => 'integer', 'token' => 'string', 'expires_at?' => 'integer', 'scope?' => 'string']);
foreach ($schema->toSql($db->getDatabasePlatform()) as $sql) $db->executeStatement($sql);

$array = function ($value) use ($db) { return Type::getType('array')->convertToDatabaseValue($value, $db->getDatabasePlatform()); };
$insert = function (string $table, array $row) use ($db) { $db->insert($table, $row); return (int) $db->lastInsertId(); };
$salt = 'p8vnx4qjmyoksw0gcokc8g4s8ogc8wg';
$digest = (new MessageDigestPasswordHasher('sha512', true, 5000))->hash('correct horse battery', $salt);
$native = (new NativePasswordHasher(null, null, 10, PASSWORD_BCRYPT))->hash('correct horse battery');
$user = function (string $name, ?string $salt, string $hash, int $enabled = 1) use ($insert, $array) {
    return $insert('fos_user', ['username' => $name, 'username_canonical' => strtolower($name), 'enabled' => $enabled, 'salt' => $salt, 'password' => $hash, 'roles' => $array([])]);
};
$odile = $user('odile', $salt, $digest);
$user('bertille', null, $native);
$user('gone', $salt, $digest, 0);
$zoe = $user('Zoe', null, $native);
$user('zoe', null, $native);
$client = function (string $id, ?string $secret, $uris, array $grants) use ($insert, $array) {
    return $insert('oauth2_clients', ['random_id' => $id, 'secret' => $secret, 'redirect_uris' => $array($uris), 'allowed_grant_types' => $array($grants)]);
};
$secret = '4ok2x70rlfokc8g0wws8c8kwcokw80k44sg48goc0ok4w0so0k';
$web = $client('3bcbxd9e24g0gk4swg0kwgcwg4o8k8g4g888kwc44gcc0gwwk4', $secret,
    [' https://books.example/callback', 'https://*.books.example/callback', null, ['x'], 7], [2 => 'authorization_code', 5 => 'refresh_token', 6 => 'token', 7 => 'password']);
$client('job', $secret, [], ['client_credentials']);
$client('open', null, ['com.example.till:/callback'], ['authorization_code', 'password']);
$client("relative\e[31m", $secret, ['/callback'], ['authorization_code', 'refresh_token']);
$client('text', $secret, 'not an array', []);
$token = function (string $kind, $user, string $token, ?int $expires, ?string $scope) use ($insert, $web) {
    $insert("oauth2_{$kind}_tokens", ['client_id' => $web, 'user_id' => $user, 'token' => $token, 'expires_at' => $expires, 'scope' => $scope]);
};
$token('access', $odile, 'ZDNhYzY1NjQ4access-of-odile', time() + 3600, 'read  user');
$token('refresh', $odile, 'ZDNhYzY1NjQ4refresh-of-odile', null, 'read');
$token('refresh', $odile, 'ZDNhYzY1NjQ4expired-of-odile', time() - 60, 'read');
$token('access', null, 'ZDNhYzY1NjQ4access-of-nobody', time() + 60, 'read');
$token('access', $odile, 'ZDNhYzY1NjQ4access-without-scope', time() + 60, null);
$token('access', $zoe, 'ZDNhYzY1NjQ4access-of-a-twin', time() + 60, 'read');
